package podworker

import (
	"context"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"

	"beckon.dev/beckon/tests/cluster/internal/containerlogs"
	"beckon.dev/beckon/tests/cluster/internal/process"
)

// Logs opens the log of a container.
func (m *Manager) Logs(ctx context.Context, namespace, pod, name string, options *v1.PodLogOptions) (io.ReadCloser, error) {
	w, err := m.find(namespace, pod)
	if err != nil {
		return nil, err
	}
	c, err := w.container(name)
	if err != nil {
		return nil, err
	}
	path, err := w.logPath(c, options.Previous)
	if err != nil {
		return nil, err
	}
	r, out := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	running := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return c.process != nil && containerlogs.Path(w.logDir(), name, c.restarts) == path
	}
	go func() {
		defer cancel()
		_ = out.CloseWithError(containerlogs.Read(ctx, path, options, running, out))
	}()
	return logStream{r, cancel}, nil
}

type logStream struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (s logStream) Close() error {
	s.cancel()
	return s.ReadCloser.Close()
}

func (w *worker) container(name string) (*container, error) {
	for _, c := range append(append([]*container(nil), w.inits...), w.mains...) {
		if c.spec.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("container %q not found in pod %q", name, w.current().Name)
}

// logPath is the log of the current run, or of the last one while there is no
// current one.
func (w *worker) logPath(c *container, previous bool) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pod
	waiting, restarts := c.state.Waiting, c.restarts
	switch {
	case previous && c.last.Terminated == nil:
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", c.spec.Name, pod.Name)
	case previous && waiting == nil:
		restarts--
	case !previous && waiting != nil && c.last.Terminated == nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", c.spec.Name, pod.Name, waiting.Reason)
	}
	return containerlogs.Path(w.logDir(), c.spec.Name, restarts), nil
}

// Exec runs a command in a container and waits for it.
func (m *Manager) Exec(ctx context.Context, namespace, pod, name string, command []string, streams process.Streams) error {
	w, err := m.find(namespace, pod)
	if err != nil {
		return err
	}
	c, err := w.container(name)
	if err != nil {
		return err
	}
	w.mu.Lock()
	p := c.process
	w.mu.Unlock()
	if p == nil {
		return fmt.Errorf("container %q in pod %q is not running", name, pod)
	}
	e, err := w.startExec(c, p, command, streams)
	if err != nil {
		return err
	}
	select {
	case <-e.Done():
	case <-ctx.Done():
		e.Kill()
	}
	if code := e.ExitCode(); code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
	}
	return nil
}

// Address is where a pod's ports are.
func (m *Manager) Address(namespace, pod string) (string, error) {
	w, err := m.find(namespace, pod)
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ip.IsValid() {
		return "", fmt.Errorf("pod %q has no address yet", pod)
	}
	return w.ip.String(), nil
}
