package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
)

// Isolation is how much of a container the node's own rights allow.
type Isolation int

const (
	// Root gives each container a mount and a PID namespace, and the user
	// that its security context asks for.
	Root Isolation = iota
	// User does the same inside a user namespace, in which the node's own
	// user bears the number that is asked for.
	User
	// None runs plain processes of the node's user; what is mounted is found
	// by rewriting the paths in arguments and environment.
	None
)

func (i Isolation) String() string {
	return [...]string{"namespaces", "user namespaces", "none"}[i]
}

// Detect finds the best isolation that works here by running a command in it.
func Detect(dir string) (Isolation, error) {
	candidates := []Isolation{User, None}
	if os.Geteuid() == 0 {
		candidates = []Isolation{Root, None}
	}
	var failure error
	for _, candidate := range candidates {
		if err := candidate.try(dir); err != nil {
			failure = fmt.Errorf("%s: %w", candidate, err)
			continue
		}
		if candidate == None {
			failure = errors.Join(failure, adoptOrphans())
		}
		return candidate, failure
	}
	return None, failure
}

func (i Isolation) try(dir string) error {
	root, err := os.MkdirTemp(dir, "detect-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	source, err := os.MkdirTemp(dir, "detect-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	// A mount point that no host has.
	mounts := []nodeexec.Mount{{Source: source, Target: "/.detect/mount"}}
	spec := nodeexec.Spec{Command: []string{"/bin/sh", "-c", "exit 0"}, Root: root, Mounts: mounts}
	p, err := i.Start(spec, nil, nil)
	if err != nil {
		return err
	}
	<-p.Done()
	if p.ExitCode() != 0 {
		return fmt.Errorf("exit code %d", p.ExitCode())
	}
	return nil
}

// fit makes of a spec what the isolation cannot do by itself.
func (i Isolation) fit(spec nodeexec.Spec) nodeexec.Spec {
	switch i {
	case User:
		// The mapping of the user namespace has set them already.
		spec.Credentials = nil
		spec.DropAmbient = true
	case None:
		spec = translate(spec)
		spec.AdoptOrphans = true
	}
	return spec
}

// PATH is where a container's commands are looked up.
func (i Isolation) PATH(image string) string {
	const system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if i != None {
		image = nodeexec.ImagePath
	}
	return filepath.Join(image, "bin") + ":" + system
}

func (i Isolation) attributes(spec nodeexec.Spec) *syscall.SysProcAttr {
	// No Pdeathsig here: Go's child looks for its parent's PID, which a PID
	// namespace hides, and kills itself. The helper sets it.
	attr := &syscall.SysProcAttr{Setsid: true}
	if i == None {
		return attr
	}
	attr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID
	if i == User {
		uid, gid := os.Getuid(), os.Getgid()
		inUID, inGID := uid, gid
		if c := spec.Credentials; c != nil {
			inUID, inGID = c.UID, c.GID
		}
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: inUID, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: inGID, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return attr
}
