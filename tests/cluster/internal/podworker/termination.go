package podworker

import (
	"context"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"

	"beckon.dev/beckon/tests/cluster/internal/process"
)

// minimumGrace is left even to a pod that is deleted without any, as the
// kubelet does.
const minimumGrace = 2 * time.Second

func specGrace(pod *v1.Pod) time.Duration {
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 30 * time.Second
}

func deletionGrace(pod *v1.Pod) time.Duration {
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return specGrace(pod)
}

// update takes a newer version of the pod's object.
func (w *worker) update(pod *v1.Pod) {
	w.mu.Lock()
	w.pod = pod
	w.mu.Unlock()
	if pod.DeletionTimestamp != nil {
		w.locked(func() { w.deleting = true })
		w.terminate(deletionGrace(pod))
		w.release()
	}
}

// remove is for an object that is gone: nobody waits for the pod any more.
func (w *worker) remove(pod *v1.Pod) {
	w.locked(func() { w.removed = true })
	w.terminate(deletionGrace(pod))
	w.release()
}

func (w *worker) shutdown(grace time.Duration) {
	w.terminate(min(grace, specGrace(w.current())))
	w.release()
}

// release lets the worker end once its processes have.
func (w *worker) release() { w.leaveOnce.Do(func() { close(w.leave) }) }

// terminate stops all containers. Called again, it can only shorten the grace
// period.
func (w *worker) terminate(grace time.Duration) {
	grace = max(grace, minimumGrace)
	var shortened []*process.Process
	w.locked(func() {
		switch {
		case w.ctx.Err() == nil:
			w.grace = grace
		case grace < w.grace:
			w.grace = grace
			for _, c := range append(append([]*container(nil), w.inits...), w.mains...) {
				if c.process != nil {
					shortened = append(shortened, c.process)
				}
			}
		}
	})
	for _, p := range shortened {
		go p.Stop(grace)
	}
	w.cancel()
}

// stopContainer runs the hook and stops the process, in one grace period.
func (w *worker) stopContainer(c *container, p *process.Process, grace time.Duration) {
	w.event(v1.EventTypeNormal, "Killing", "Stopping container %s", c.spec.Name)
	deadline := time.Now().Add(grace)
	if lifecycle := c.spec.Lifecycle; lifecycle != nil && lifecycle.PreStop != nil {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		go func() {
			<-p.Done()
			cancel()
		}()
		if err := w.runHandler(ctx, c, p, lifecycle.PreStop); err != nil && ctx.Err() == nil {
			w.event(v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: %v", err)
		}
	}
	p.Stop(max(time.Until(deadline), minimumGrace))
}

func (w *worker) runHandler(ctx context.Context, c *container, p *process.Process, handler *v1.LifecycleHandler) error {
	switch {
	case handler.Sleep != nil:
		sleep(ctx, time.Duration(handler.Sleep.Seconds)*time.Second)
		return nil
	case handler.Exec != nil:
		code, output, err := w.execIn(ctx, c, p, handler.Exec.Command)
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, output)
		}
		return err
	case handler.HTTPGet != nil:
		request, err := httpprobe.NewRequestForHTTPGetAction(handler.HTTPGet, c.spec, w.ip.String(), "lifecycle")
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request.WithContext(ctx))
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	return fmt.Errorf("this node has no such hook")
}
