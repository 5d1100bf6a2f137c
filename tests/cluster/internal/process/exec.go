package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
)

// Streams of a command that runs beside a container's own. Each may be nil.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exec starts a command in what a running container sees. The caller waits for
// it, and it does not outlive the container.
func (p *Process) Exec(spec nodeexec.Spec, streams Streams) (*Process, error) {
	if p.isolation == User {
		// Entering a user namespace takes a process with a single thread.
		return nil, fmt.Errorf("exec needs a node that runs as root")
	}
	spec = p.isolation.fit(spec)
	spec.Root, spec.Mounts, spec.Image = "", nil, ""
	attr := &syscall.SysProcAttr{Setsid: true}
	return p.isolation.start(spec, func(cmd *exec.Cmd) error {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = streams.Stdin, streams.Stdout, streams.Stderr
		// A reader without an end must not keep a command that has ended.
		cmd.WaitDelay = 1e9
		if p.isolation == None {
			return nil
		}
		return enterNamespaces(p.PID)
	}, attr)
}

// enterNamespaces moves the calling thread: its file system view at once, its
// PID namespace for the processes that it starts.
func enterNamespaces(pid int) error {
	runtime.LockOSThread()
	files := make(map[string]*os.File)
	for _, name := range []string{"mnt", "pid"} {
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		if err != nil {
			return err
		}
		defer file.Close()
		files[name] = file
	}
	// The threads of a process share their root and working directory, which
	// the kernel does not let one of them change.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(int(files["pid"].Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("entering the PID namespace: %w", err)
	}
	if err := unix.Setns(int(files["mnt"].Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering the mount namespace: %w", err)
	}
	return nil
}
