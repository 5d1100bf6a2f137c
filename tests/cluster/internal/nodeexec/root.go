package nodeexec

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// root is a container's view of the file system under construction: a tmpfs
// that shows what the host's root holds. Where a mount needs a directory that
// the host does not have, the directory above it is replaced by a tmpfs that
// shows the same entries, so that nothing is ever made on the host.
type root struct {
	dir string
	// kinds says for paths of the new root who may make entries there.
	kinds map[string]kind
}

type kind int

const (
	// host directories are shown as they are, and never written to.
	host kind = iota
	// own directories live in a tmpfs of this root.
	own
	// volume directories get their missing mount points in the volume itself,
	// where the other containers of the pod see them too.
	volume
)

// enterRoot leaves the process in the new root, with nothing of the old one
// but what was put there.
func enterRoot(spec Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", spec.Root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	// The host's tree holds this directory too: without this the root would
	// contain itself.
	if err := unix.Mount("", spec.Root, "", unix.MS_UNBINDABLE, ""); err != nil {
		return fmt.Errorf("making the root unbindable: %w", err)
	}
	r := &root{dir: spec.Root, kinds: map[string]kind{"/": own}}
	if err := r.show("/", "/", skipProc); err != nil {
		return err
	}
	if err := r.proc(); err != nil {
		return err
	}
	if spec.Image != "" {
		if err := r.image(spec.Image); err != nil {
			return err
		}
	}
	if err := r.mounts(spec.Mounts); err != nil {
		return err
	}
	if spec.Dir != "" {
		if _, err := r.ensure(spec.Dir, true); err != nil {
			return fmt.Errorf("working directory: %w", err)
		}
	}
	return pivot(spec.Root)
}

func skipProc(name string) bool { return name == "proc" }

// proc shows the container's own processes. It must be mounted from inside the
// new PID namespace.
func (r *root) proc() error {
	dir := filepath.Join(r.dir, "proc")
	if err := os.Mkdir(dir, 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}

// mounts are made from the top down, so that one inside another stays visible,
// and made read-only last, so that it could be.
func (r *root) mounts(mounts []Mount) error {
	mounts = append([]Mount(nil), mounts...)
	depth := func(path string) int { return strings.Count(filepath.Clean(path), "/") }
	sort.SliceStable(mounts, func(i, j int) bool { return depth(mounts[i].Target) < depth(mounts[j].Target) })
	var readOnly []string
	for _, m := range mounts {
		info, err := os.Stat(m.Source)
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
		target, err := r.ensure(m.Target, info.IsDir())
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
		if err := r.mount(m.Source, target); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
		r.kinds[target] = volume
		if m.ReadOnly {
			readOnly = append(readOnly, target)
		}
	}
	for _, target := range readOnly {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, filepath.Join(r.dir, target), 0, &attr); err != nil {
			return fmt.Errorf("mount %s read-only: %w", target, err)
		}
	}
	return nil
}

// pivot makes dir the root and lets go of the old one.
func pivot(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return err
	}
	// The old root ends up stacked on the new one and is taken off again.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("letting go of the old root: %w", err)
	}
	return unix.Chdir("/")
}
