package podworker

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	flushRetryMin = 100 * time.Millisecond
	flushRetryMax = 2 * time.Second
	// finishTimeout bounds what a node that stops waits for the API server.
	finishTimeout = 3 * time.Second
)

// statusLoop reports each change at once, and what changed meanwhile together.
func (w *worker) statusLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
			w.flushUntilDone(ctx)
		}
	}
}

func (w *worker) flushUntilDone(ctx context.Context) {
	for retry := flushRetryMin; ; retry = min(2*retry, flushRetryMax) {
		err := w.flush(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "Updating the pod's status", "pod", klog.KObj(w.current()))
		if !sleep(ctx, retry) {
			return
		}
	}
}

// flush sends only what differs from the status that was sent last, so that it
// neither conflicts with nor undoes what others write to the object.
func (w *worker) flush(ctx context.Context) error {
	w.flushing.Lock()
	defer w.flushing.Unlock()
	w.mu.Lock()
	old := w.pushed
	status := podStatus(w.snapshot(), old)
	pod := w.pod
	gone := w.removed
	w.mu.Unlock()
	if gone || equality.Semantic.DeepEqual(old, status) {
		return nil
	}
	patch, err := statusPatch(pod.UID, old, status)
	if err != nil {
		return err
	}
	updated, err := w.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.pushed = updated.Status
	w.mu.Unlock()
	return nil
}

func statusPatch(uid types.UID, old, status v1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(v1.Pod{Status: old})
	if err != nil {
		return nil, err
	}
	// The UID, only in the new one, becomes a precondition.
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: status})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
}

// isGone is also true for an object of the same name that is another's.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// finish reports the end, and removes the object of a pod that is deleted:
// never before its last process is gone.
func (w *worker) finish() {
	w.mu.Lock()
	deleting, removed := w.deleting, w.removed
	w.mu.Unlock()
	if removed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(w.stopping, func() { time.AfterFunc(finishTimeout, cancel) })()
	w.flushUntilDone(ctx)
	if deleting {
		w.deleteObject(ctx)
	}
}

func (w *worker) deleteObject(ctx context.Context) {
	pod := w.current()
	options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	for retry := flushRetryMin; ; retry = min(2*retry, flushRetryMax) {
		err := w.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
		if err == nil || isGone(err) || ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "Deleting the pod", "pod", klog.KObj(pod))
		if !sleep(ctx, retry) {
			return
		}
	}
}
