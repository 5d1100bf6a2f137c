package nodeexec

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// become takes on the credentials and executes the command.
func become(spec Spec) error {
	unix.CloseOnExec(errorFD)
	unix.Umask(0o022)
	if c := spec.Credentials; c != nil {
		if err := setCredentials(c); err != nil {
			return err
		}
	}
	if spec.DropAmbient {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return fmt.Errorf("dropping capabilities: %w", err)
		}
	}
	if spec.AdoptOrphans {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("PR_SET_CHILD_SUBREAPER: %w", err)
		}
	}
	// A change of credentials clears the death signal that the node set.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_PDEATHSIG: %w", err)
	}
	if nodeGone() {
		return errors.New("the node is gone")
	}
	if spec.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("PR_SET_NO_NEW_PRIVS: %w", err)
		}
	}
	dir := spec.Dir
	if dir == "" {
		dir = "/"
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	env := withHome(spec.Env)
	path, err := lookPath(spec.Command[0], env)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, spec.Command, env)
	return fmt.Errorf("exec: %q: %w", spec.Command[0], err)
}

func setCredentials(c *Credentials) error {
	if err := syscall.Setgroups(c.Groups); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	if err := syscall.Setresgid(c.GID, c.GID, c.GID); err != nil {
		return fmt.Errorf("setgid %d: %w", c.GID, err)
	}
	if err := syscall.Setresuid(c.UID, c.UID, c.UID); err != nil {
		return fmt.Errorf("setuid %d: %w", c.UID, err)
	}
	return nil
}

// nodeGone tells whether the reader of errorFD has died, in the time in which
// no death signal was set.
func nodeGone() bool {
	fds := []unix.PollFd{{Fd: errorFD, Events: unix.POLLOUT}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
}

// lookPath is os/exec's with the message that container runtimes give.
func lookPath(command string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		return command, nil
	}
	for _, dir := range filepath.SplitList(getenv(env, "PATH")) {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, command)
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", command)
}

// withHome adds HOME as container runtimes do: from the password file, else /.
func withHome(env []string) []string {
	if getenv(env, "HOME") != "" {
		return env
	}
	return append(env, "HOME="+home(os.Getuid()))
}

func home(uid int) string {
	file, err := os.Open("/etc/passwd")
	if err != nil {
		return "/"
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) > 5 && fields[2] == strconv.Itoa(uid) {
			return fields[5]
		}
	}
	return "/"
}

func getenv(env []string, name string) string {
	value := ""
	for _, e := range env {
		if k, v, ok := strings.Cut(e, "="); ok && k == name {
			value = v
		}
	}
	return value
}
