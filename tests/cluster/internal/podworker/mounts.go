package podworker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"os/user"

	v1 "k8s.io/api/core/v1"

	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
	"beckon.dev/beckon/tests/cluster/internal/process"
	"beckon.dev/beckon/tests/cluster/internal/volumes"
)

// volume finds what a mount shows.
func (w *worker) volume(pod *v1.Pod, m v1.VolumeMount) (source string, readOnly bool, err error) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Name != m.Name {
			continue
		}
		source = w.volumes.Path(volume)
		if m.SubPathExpr != "" {
			return "", false, fmt.Errorf("this node has no subPathExpr")
		}
		if m.SubPath != "" {
			source = filepath.Join(source, m.SubPath)
			if err := subPath(source, volume); err != nil {
				return "", false, err
			}
		}
		return source, m.ReadOnly || volumes.IsReadOnly(volume), nil
	}
	return "", false, fmt.Errorf("no volume %q", m.Name)
}

// subPath makes a missing directory in a volume that may be written to.
func subPath(path string, volume *v1.Volume) error {
	_, err := os.Stat(path)
	if err == nil || volumes.IsReadOnly(volume) {
		return err
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	return os.Chmod(path, 0o777)
}

// credentials are nil where the node's own user runs the container.
func (w *worker) credentials(pod *v1.Pod, c *v1.Container) (*nodeexec.Credentials, error) {
	sc := securityContext(pod, c)
	uid := os.Getuid()
	if sc.RunAsUser != nil {
		uid = int(*sc.RunAsUser)
	}
	if sc.RunAsNonRoot != nil && *sc.RunAsNonRoot && uid == 0 {
		return nil, fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %s_%s, container: %s)", pod.Name, pod.Namespace, c.Name)
	}
	groups := supplementalGroups(pod)
	if w.Isolation == process.None || sc.RunAsUser == nil && sc.RunAsGroup == nil && len(groups) == 0 {
		return nil, nil
	}
	gid := primaryGroup(uid)
	if sc.RunAsGroup != nil {
		gid = int(*sc.RunAsGroup)
	}
	return &nodeexec.Credentials{UID: uid, GID: gid, Groups: append([]int{gid}, groups...)}, nil
}

// securityContext is the container's, and the pod's for what it leaves open.
func securityContext(pod *v1.Pod, c *v1.Container) v1.SecurityContext {
	sc := v1.SecurityContext{}
	if c.SecurityContext != nil {
		sc = *c.SecurityContext
	}
	if p := pod.Spec.SecurityContext; p != nil {
		if sc.RunAsUser == nil {
			sc.RunAsUser = p.RunAsUser
		}
		if sc.RunAsGroup == nil {
			sc.RunAsGroup = p.RunAsGroup
		}
		if sc.RunAsNonRoot == nil {
			sc.RunAsNonRoot = p.RunAsNonRoot
		}
	}
	return sc
}

func supplementalGroups(pod *v1.Pod) []int {
	var groups []int
	if sc := pod.Spec.SecurityContext; sc != nil {
		if sc.FSGroup != nil {
			groups = append(groups, int(*sc.FSGroup))
		}
		for _, group := range sc.SupplementalGroups {
			groups = append(groups, int(group))
		}
	}
	return groups
}

// primaryGroup is the user's own: the group 0 that an image would give to a
// user it does not know can read too much of a host.
func primaryGroup(uid int) int {
	if uid == os.Getuid() {
		return os.Getgid()
	}
	if known, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		if gid, err := strconv.Atoi(known.Gid); err == nil {
			return gid
		}
	}
	return uid
}

func noNewPrivileges(c *v1.Container) bool {
	sc := c.SecurityContext
	return sc != nil && sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation
}
