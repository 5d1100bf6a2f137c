package podworker

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"net/netip"

	"beckon.dev/beckon/tests/cluster/internal/volumes"
)

const (
	// setUpRetry is the pause before what could not be set up is tried again.
	setUpRetry = time.Second
	// volumeRefresh is how soon a changed secret shows in a volume.
	volumeRefresh = 20 * time.Second
)

// worker runs one pod.
type worker struct {
	*Manager
	dir     string
	volumes *volumes.Set
	// ctx ends when the pod has to stop.
	ctx    context.Context
	cancel context.CancelFunc
	// changed wakes the status loop; flushing is held while it writes.
	changed  chan struct{}
	flushing sync.Mutex
	// leave closes when the worker has no more reason to exist once its
	// processes are gone.
	leave     chan struct{}
	leaveOnce sync.Once

	mu     sync.Mutex
	pod    *v1.Pod
	pushed v1.PodStatus
	ip     netip.Addr
	inits  []*container
	mains  []*container
	grace  time.Duration
	// failure overrides the phase that the containers add up to.
	failure *failure
	// ended says that no process of the pod runs or will run.
	ended    bool
	deleting bool
	removed  bool
}

type failure struct{ reason, message string }

func newWorker(m *Manager, pod *v1.Pod) *worker {
	ctx, cancel := context.WithCancel(context.Background())
	dir := filepath.Join(m.Dir, string(pod.UID))
	w := &worker{
		Manager: m,
		dir:     dir,
		volumes: volumes.NewSet(filepath.Join(dir, "volumes"), m.objects),
		ctx:     ctx,
		cancel:  cancel,
		changed: make(chan struct{}, 1),
		leave:   make(chan struct{}),
		pod:     pod,
		pushed:  *pod.Status.DeepCopy(),
	}
	for i := range pod.Spec.InitContainers {
		w.inits = append(w.inits, newContainer(pod, &pod.Spec.InitContainers[i], true))
	}
	for i := range pod.Spec.Containers {
		w.mains = append(w.mains, newContainer(pod, &pod.Spec.Containers[i], false))
	}
	return w
}

func (w *worker) run() {
	statusCtx, stopStatus := context.WithCancel(context.Background())
	defer stopStatus()
	go w.statusLoop(statusCtx)

	if !w.isOver() {
		w.runPod()
	}
	w.locked(func() { w.ended = true })
	w.Addresses.Release(w.ip)

	<-w.leave
	stopStatus()
	w.finish()
	if err := os.RemoveAll(w.dir); err != nil {
		klog.ErrorS(err, "Removing the pod's directory", "pod", klog.KObj(w.current()))
	}
}

// isOver is true for a pod that has ended, or was to end, before this node saw
// it first.
func (w *worker) isOver() bool {
	pod := w.current()
	return pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// runPod returns when all containers have ended for good or the pod was told
// to stop, and none of its processes is left.
func (w *worker) runPod() {
	var background sync.WaitGroup
	defer background.Wait()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()

	if !w.setUp(ctx) {
		return
	}
	if deadline := w.pod.Spec.ActiveDeadlineSeconds; deadline != nil {
		background.Go(func() { w.watchDeadline(ctx, time.Duration(*deadline)*time.Second) })
	}
	if volumes.Changes(w.pod) {
		background.Go(func() { w.refreshVolumes(ctx) })
	}
	for _, c := range w.inits {
		if !w.anyLeft() {
			break
		}
		if !w.runContainer(ctx, c) {
			return
		}
	}
	var mains sync.WaitGroup
	for _, c := range w.mains {
		mains.Go(func() { w.runContainer(ctx, c) })
	}
	mains.Wait()
}

// anyLeft is false when an earlier node has seen all containers end.
func (w *worker) anyLeft() bool {
	for _, c := range w.mains {
		if !c.done {
			return true
		}
	}
	return false
}

// setUp gives the pod its address and its volumes.
func (w *worker) setUp(ctx context.Context) bool {
	reported := ""
	for {
		err := w.trySetUp(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && err.Error() != reported {
			reported = err.Error()
			w.event(v1.EventTypeWarning, "FailedMount", "%v", err)
		}
		if !sleep(ctx, setUpRetry) {
			return false
		}
	}
}

func (w *worker) trySetUp(ctx context.Context) error {
	if !w.ip.IsValid() {
		ip, err := w.Addresses.Allocate()
		if err != nil {
			return err
		}
		w.locked(func() { w.ip = ip })
	}
	for _, dir := range []string{"rootfs", "logs", "termination", "volumes"} {
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o755); err != nil {
			return err
		}
	}
	return w.volumes.SetUp(ctx, w.current())
}

func (w *worker) refreshVolumes(ctx context.Context) {
	for sleep(ctx, volumeRefresh) {
		if err := w.volumes.SetUp(ctx, w.current()); err != nil && ctx.Err() == nil {
			w.event(v1.EventTypeWarning, "FailedMount", "%v", err)
		}
	}
}

func (w *worker) watchDeadline(ctx context.Context, deadline time.Duration) {
	started := time.Now()
	if at := w.current().Status.StartTime; at != nil {
		started = at.Time
	}
	if sleep(ctx, time.Until(started.Add(deadline))) {
		const message = "Pod was active on the node longer than the specified deadline"
		w.event(v1.EventTypeNormal, "DeadlineExceeded", message)
		w.locked(func() { w.failure = &failure{"DeadlineExceeded", message} })
		w.terminate(specGrace(w.current()))
	}
}

// sleep is false when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// locked changes the worker's state and has it reported.
func (w *worker) locked(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *worker) current() *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

func (w *worker) isRemoved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed
}

func (w *worker) event(kind, reason, format string, args ...any) {
	w.Recorder.Eventf(w.current(), kind, reason, format, args...)
}

func now() metav1.Time { return metav1.Now() }
