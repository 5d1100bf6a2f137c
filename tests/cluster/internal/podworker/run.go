package podworker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"beckon.dev/beckon/tests/cluster/internal/containerlogs"
	"beckon.dev/beckon/tests/cluster/internal/process"
)

// runContainer keeps a container going until it has ended for good, and tells
// whether it succeeded.
func (w *worker) runContainer(ctx context.Context, c *container) bool {
	if c.done {
		return c.state.Terminated.ExitCode == 0
	}
	for ctx.Err() == nil {
		before := time.Now()
		exitCode, ok := w.runOnce(ctx, c)
		if !ok || ctx.Err() != nil {
			return false
		}
		if !c.shouldRestart(w.current(), exitCode) {
			return exitCode == 0
		}
		if !w.backOff(ctx, c, time.Since(before)) {
			return false
		}
		w.locked(c.restart)
	}
	return false
}

func (w *worker) backOff(ctx context.Context, c *container, ran time.Duration) bool {
	delay := c.nextBackOff(ran, w.MaxContainerRestartPeriod)
	if delay == 0 {
		return true
	}
	pod := w.current()
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, c.spec.Name, pod.Name, pod.Namespace, pod.UID)
	w.event(v1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s", c.spec.Name, pod.Name)
	w.locked(func() {
		c.last = c.state
		c.wait(reasonCrashLoopBackOff, message)
	})
	return sleep(ctx, delay)
}

// runOnce is false when the pod was stopped before the container could run.
func (w *worker) runOnce(ctx context.Context, c *container) (int32, bool) {
	spec, ok := w.prepare(ctx, c)
	if !ok {
		return 0, false
	}
	log, err := containerlogs.Create(w.logDir(), c.spec.Name, c.restarts)
	if err != nil {
		return w.startFailed(c, err), true
	}
	p, err := w.Isolation.Start(spec, log.Stdout, log.Stderr)
	log.Started()
	if err != nil {
		log.Wait()
		return w.startFailed(c, err), true
	}
	w.locked(func() { c.running(p, spec) })
	w.event(v1.EventTypeNormal, "Started", "Container started")

	probing, stopProbing := context.WithCancel(ctx)
	w.startProbes(probing, c, p)
	w.postStart(probing, c, p)
	select {
	case <-p.Done():
	case <-ctx.Done():
		stopProbing()
		w.stopContainer(c, p, w.stopGrace())
	}
	stopProbing()
	log.Wait()

	exitCode := int32(p.ExitCode())
	ended := v1.ContainerStateTerminated{
		ExitCode:   exitCode,
		Reason:     reasonCompleted,
		StartedAt:  metav1.NewTime(p.StartedAt),
		FinishedAt: metav1.NewTime(p.FinishedAt()),
		Message:    w.terminationMessage(c, exitCode),
	}
	if exitCode != 0 {
		ended.Reason = reasonError
	}
	w.locked(func() { c.terminated(ended) })
	return exitCode, true
}

func (w *worker) stopGrace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.grace
}

// startFailed is what a runtime reports of a command that it cannot start.
func (w *worker) startFailed(c *container, err error) int32 {
	exitCode := int32(exitCodeStartError)
	w.event(v1.EventTypeWarning, "Failed", "Error: %v", err)
	var startError *process.StartError
	reason := reasonError
	if errors.As(err, &startError) {
		reason = reasonStartError
	}
	w.locked(func() {
		c.id = fmt.Sprintf("process://%s-%d", reason, now().UnixMilli())
		c.terminated(v1.ContainerStateTerminated{
			ExitCode: exitCode, Reason: reason, Message: err.Error(), StartedAt: metav1.Unix(0, 0), FinishedAt: now(),
		})
	})
	return exitCode
}

func (w *worker) postStart(ctx context.Context, c *container, p *process.Process) {
	if c.spec.Lifecycle == nil || c.spec.Lifecycle.PostStart == nil {
		return
	}
	if err := w.runHandler(ctx, c, p, c.spec.Lifecycle.PostStart); err != nil && ctx.Err() == nil {
		w.event(v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed: %v", err)
		w.stopContainer(c, p, specGrace(w.current()))
	}
}

func (w *worker) logDir() string { return filepath.Join(w.dir, "logs") }

func (w *worker) terminationFile(c *container) string {
	return filepath.Join(w.dir, "termination", fmt.Sprintf("%s-%d", c.spec.Name, c.restarts))
}

func (w *worker) terminationMessage(c *container, exitCode int32) string {
	data, err := os.ReadFile(w.terminationFile(c))
	if err == nil && len(data) > 0 {
		return string(data[:min(len(data), maxTerminationMessage)])
	}
	if exitCode == 0 || c.spec.TerminationMessagePolicy != v1.TerminationMessageFallbackToLogsOnError {
		return ""
	}
	path := containerlogs.Path(w.logDir(), c.spec.Name, c.restarts)
	return containerlogs.Tail(path, maxTerminationLogLines, maxTerminationLogMessage)
}
