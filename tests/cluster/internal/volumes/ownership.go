package volumes

import (
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// fsGroup is nil for none, and where this node cannot change owners.
func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil || os.Geteuid() != 0 {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// emptyDir is open to any user, as the kubelet's is: the directories above it
// keep others out.
func emptyDir(dir string, group *int64) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o777)
	if group != nil {
		if err := os.Lchown(dir, -1, int(*group)); err != nil {
			return err
		}
		mode |= fs.ModeSetgid
	}
	// Apart from Mkdir, whose mode the umask has its say in.
	return os.Chmod(dir, mode)
}

// readableByGroup gives what was written to the pod's group.
func readableByGroup(dir string, group *int64) error {
	if group == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, int(*group)); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		mode := info.Mode() | 0o440
		if entry.IsDir() {
			mode |= fs.ModeSetgid | 0o110
		}
		return os.Chmod(path, mode)
	})
}

// tokenOwner is the user of all containers when they agree on one: a service
// account token is then readable by that user alone.
func tokenOwner(pod *v1.Pod) *int64 {
	if os.Geteuid() != 0 {
		return nil
	}
	var owner *int64
	containers := append(append([]v1.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...)
	for _, container := range containers {
		var user *int64
		if sc := pod.Spec.SecurityContext; sc != nil {
			user = sc.RunAsUser
		}
		if sc := container.SecurityContext; sc != nil && sc.RunAsUser != nil {
			user = sc.RunAsUser
		}
		if user == nil || owner != nil && *owner != *user {
			return nil
		}
		owner = user
	}
	return owner
}
