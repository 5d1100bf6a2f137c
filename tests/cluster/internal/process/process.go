// Package process runs a container's command as a local process, and ends it
// together with all that it started.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
)

// Process is a started container.
type Process struct {
	PID       int
	StartedAt time.Time

	handle *os.Process
	// done closes when the main process and its descendants are gone; the
	// fields below are written before.
	done       chan struct{}
	exitCode   int
	finishedAt time.Time

	isolation Isolation
	terminate sync.Once
}

// StartError says that a command could not be started at all, as opposed to
// one that ran and failed.
type StartError struct{ Message string }

func (e *StartError) Error() string { return e.Message }

// Start returns when the command runs, or with a *StartError when it cannot.
func (i Isolation) Start(spec nodeexec.Spec, stdout, stderr *os.File) (*Process, error) {
	return i.start(i.fit(spec), func(cmd *exec.Cmd) error {
		cmd.Stdout, cmd.Stderr = stdout, stderr
		return nil
	}, i.attributes(spec))
}

// start runs a command from a thread of its own: the kernel delivers the death
// signal when the thread that forked dies, not when its process does.
func (i Isolation) start(spec nodeexec.Spec, prepare func(*exec.Cmd) error, attr *syscall.SysProcAttr) (*Process, error) {
	type started struct {
		process *Process
		err     error
	}
	result := make(chan started, 1)
	go func() {
		// Not unlocked, so that the thread, which prepare may have moved to
		// other namespaces, ends with this goroutine.
		runtime.LockOSThread()
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{nodeexec.Name}, Dir: "/", SysProcAttr: attr}
		if err := prepare(cmd); err != nil {
			result <- started{err: err}
			return
		}
		if err := handOver(cmd, spec); err != nil {
			result <- started{err: err}
			return
		}
		p := &Process{PID: cmd.Process.Pid, handle: cmd.Process, StartedAt: time.Now(), done: make(chan struct{}), isolation: i}
		result <- started{process: p}
		_ = cmd.Wait()
		forgetChild(cmd)
		p.finish(cmd.ProcessState)
	}()
	r := <-result
	return r.process, r.err
}

// handOver starts the helper and waits until it has become the command.
func handOver(cmd *exec.Cmd, spec nodeexec.Spec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	specR, specW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer specR.Close()
	defer specW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer errR.Close()
	defer errW.Close()
	cmd.ExtraFiles = []*os.File{specR, errW}
	if err := startChild(cmd); err != nil {
		return &StartError{Message: err.Error()}
	}
	errW.Close()
	specR.Close()
	_, writeErr := specW.Write(data)
	specW.Close()
	message, readErr := io.ReadAll(errR)
	if len(message) == 0 && writeErr == nil && readErr == nil {
		return nil
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	forgetChild(cmd)
	if len(message) > 0 {
		return &StartError{Message: string(message)}
	}
	return &StartError{Message: errors.Join(writeErr, readErr, errors.New("node-exec ended early")).Error()}
}

func startChild(cmd *exec.Cmd) error {
	children.Lock()
	defer children.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	children.started[cmd.Process.Pid] = true
	return nil
}

func forgetChild(cmd *exec.Cmd) {
	children.Lock()
	defer children.Unlock()
	delete(children.started, cmd.Process.Pid)
}

func (p *Process) finish(state *os.ProcessState) {
	// In a PID namespace the kernel has ended all others by the time that the
	// first process can be waited for.
	if p.isolation == None {
		killOrphans()
	}
	p.finishedAt = time.Now()
	p.exitCode = exitCode(state)
	close(p.done)
}

// exitCode is the shell's: 128 and the signal for one that was killed.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// Done closes when nothing of the container runs any more.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is valid once Done is closed.
func (p *Process) ExitCode() int { return p.exitCode }

// FinishedAt is valid once Done is closed.
func (p *Process) FinishedAt() time.Time { return p.finishedAt }

// Stop asks the main process to end, and kills what is left after the grace
// period. It may be called again with a shorter one.
func (p *Process) Stop(grace time.Duration) {
	p.terminate.Do(func() { p.signal(syscall.SIGTERM) })
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// Kill ends the container at once.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal fails only for a process that has ended: its handle knows, so that
// another one which has got its PID is safe.
func (p *Process) signal(sig syscall.Signal) { _ = p.handle.Signal(sig) }

// ID names the process in a container's status, with what a person needs to
// find it on this machine.
func (p *Process) ID() string { return fmt.Sprintf("process://%d-%d", p.PID, p.StartedAt.UnixMilli()) }
