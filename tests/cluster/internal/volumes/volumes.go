// Package volumes makes the directories behind a pod's volumes and keeps their
// content current.
package volumes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

// Set is the volumes of one pod.
type Set struct {
	dir     string
	objects *Objects
	tokens  tokenCache
}

// NewSet keeps the volumes of a pod below a directory of its own.
func NewSet(dir string, objects *Objects) *Set {
	return &Set{dir: dir, objects: objects, tokens: tokenCache{}}
}

// SetUp makes what is missing and writes what has changed since the last call.
func (s *Set) SetUp(ctx context.Context, pod *v1.Pod) error {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if err := s.setUp(ctx, pod, volume); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", volume.Name, err)
		}
	}
	return nil
}

func (s *Set) setUp(ctx context.Context, pod *v1.Pod, volume *v1.Volume) error {
	switch {
	case volume.EmptyDir != nil:
		return emptyDir(s.path(volume.Name), fsGroup(pod))
	case volume.HostPath != nil:
		return hostPath(volume.HostPath)
	}
	payload, err := s.payload(ctx, pod, volume)
	if err != nil {
		return err
	}
	dir := s.path(volume.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	writer, err := volumeutil.NewAtomicWriter(dir, fmt.Sprintf("pod %s/%s volume %s", pod.Namespace, pod.Name, volume.Name))
	if err != nil {
		return err
	}
	group := fsGroup(pod)
	return writer.Write(payload, func(subPath string) error {
		return readableByGroup(filepath.Join(dir, subPath), group)
	})
}

func (s *Set) path(name string) string { return filepath.Join(s.dir, name) }

// Path is where the content of a volume lies on the host.
func (s *Set) Path(volume *v1.Volume) string {
	if volume.HostPath != nil {
		return volume.HostPath.Path
	}
	return s.path(volume.Name)
}

// Changes tells whether SetUp may have something new to write later on.
func Changes(pod *v1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil || volume.ConfigMap != nil || volume.Projected != nil || volume.DownwardAPI != nil {
			return true
		}
	}
	return false
}

// IsReadOnly is true for what the node alone may write.
func IsReadOnly(volume *v1.Volume) bool {
	return volume.EmptyDir == nil && volume.HostPath == nil
}

func hostPath(source *v1.HostPathVolumeSource) error {
	kind := v1.HostPathUnset
	if source.Type != nil {
		kind = *source.Type
	}
	if kind == v1.HostPathDirectoryOrCreate {
		return os.MkdirAll(source.Path, 0o755)
	}
	_, err := os.Stat(source.Path)
	return err
}
