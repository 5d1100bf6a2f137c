package nodeexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is the kernel's limit on links in one path.
const maxLinks = 40

// ensure finds or makes a mount point and returns its path in the new root,
// links resolved.
func (r *root) ensure(target string, dir bool) (string, error) {
	at, rest := "/", components(target)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(r.dir + next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := r.make(at, name, dir || len(rest) > 0); err != nil {
				return "", err
			}
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", unix.ELOOP
			}
			link, err := os.Readlink(r.dir + next)
			if err != nil {
				return "", err
			}
			if filepath.IsAbs(link) {
				at = "/"
			}
			rest = append(components(link), rest...)
			continue
		}
		at = next
	}
	return at, nil
}

// components keeps "..", which means something else behind a link.
func components(path string) []string {
	var parts []string
	for _, part := range strings.Split(path, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	return parts
}

// make adds an entry to a directory of the new root.
func (r *root) make(parent, name string, dir bool) error {
	k := r.kindOf(parent)
	if k == host {
		if err := r.replace(parent); err != nil {
			return fmt.Errorf("replacing %s: %w", parent, err)
		}
		k = own
	}
	path := filepath.Join(parent, name)
	if !dir {
		return os.WriteFile(r.dir+path, nil, 0o644)
	}
	if err := os.Mkdir(r.dir+path, 0o755); err != nil {
		return err
	}
	r.kinds[path] = k
	return nil
}

// kindOf is that of the nearest directory above which is known: what lies in a
// volume is the volume's. Below an own directory only what was made there is
// own, the rest shows the host.
func (r *root) kindOf(path string) kind {
	if k, ok := r.kinds[path]; ok {
		return k
	}
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		if k, ok := r.kinds[at]; ok {
			if k == volume {
				return volume
			}
			return host
		}
	}
}

// replace covers a host's directory with a tmpfs that shows the same entries.
func (r *root) replace(path string) error {
	covered, err := unix.Open(r.dir+path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(covered)
	var stat unix.Stat_t
	if err := unix.Fstat(covered, &stat); err != nil {
		return err
	}
	mode := fmt.Sprintf("mode=%o", stat.Mode&0o7777)
	if err := unix.Mount("tmpfs", r.dir+path, "tmpfs", 0, mode); err != nil {
		return err
	}
	r.kinds[path] = own
	return r.show(fmt.Sprintf("/proc/self/fd/%d", covered), path, func(string) bool { return false })
}

// show puts the entries of a host's directory into an own directory.
func (r *root) show(source, path string, skip func(name string) bool) error {
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if skip(entry.Name()) {
			continue
		}
		from, to := filepath.Join(source, entry.Name()), filepath.Join(path, entry.Name())
		if entry.Type()&fs.ModeSymlink != 0 {
			err = copyLink(from, r.dir+to)
		} else {
			err = r.bind(from, to)
		}
		// Other processes make and remove entries meanwhile.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func copyLink(from, to string) error {
	link, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(link, to)
}

// bind makes a mount point in an own directory and mounts there.
func (r *root) bind(source, path string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(r.dir+path, 0o755)
	} else {
		err = os.WriteFile(r.dir+path, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return r.mount(source, path)
}

func (r *root) mount(source, path string) error {
	return os.NewSyscallError("mount "+path, unix.Mount(source, r.dir+path, "", unix.MS_BIND|unix.MS_REC, ""))
}
