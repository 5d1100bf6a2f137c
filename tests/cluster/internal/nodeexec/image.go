package nodeexec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// image shows an image's directory, and in its bin what the links there point
// to: that may lie where the container's user cannot go.
func (r *root) image(dir string) error {
	if _, err := r.ensure(ImagePath, true); err != nil {
		return err
	}
	if err := r.show(dir, ImagePath, func(name string) bool { return name == "bin" }); err != nil {
		return err
	}
	bin := filepath.Join(ImagePath, "bin")
	if err := os.Mkdir(filepath.Join(r.dir, bin), 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(dir, "bin"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, err := filepath.EvalSymlinks(filepath.Join(dir, "bin", entry.Name()))
		if err != nil {
			return fmt.Errorf("image: %w", err)
		}
		shown := filepath.Join(bin, entry.Name())
		// A program which looks for its files beside itself must be run where
		// it lies.
		if entry.Type()&fs.ModeSymlink != 0 && reachable(source) {
			err = os.Symlink(source, filepath.Join(r.dir, shown))
		} else {
			err = r.bind(source, shown)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reachable tells whether any user can get to a path.
func reachable(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}
