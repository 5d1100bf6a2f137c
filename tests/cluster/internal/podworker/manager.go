// Package podworker runs the pods that are bound to this node: one worker for
// each, from its first process to the removal of its object.
package podworker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"beckon.dev/beckon/tests/cluster/internal/podip"
	"beckon.dev/beckon/tests/cluster/internal/process"
	"beckon.dev/beckon/tests/cluster/internal/volumes"
)

// Config is what all workers share.
type Config struct {
	Client    kubernetes.Interface
	Recorder  record.EventRecorder
	Addresses *podip.Allocator
	Isolation process.Isolation
	HostIP    string
	// Images maps the names that pods use to directories.
	Images map[string]string
	// Environment is given to every container.
	Environment []v1.EnvVar
	// Dir holds a directory for each pod.
	Dir string
	// MaxContainerRestartPeriod bounds the back-off between restarts.
	MaxContainerRestartPeriod time.Duration
}

// Manager has the workers. It takes what a watch on pods delivers.
type Manager struct {
	Config
	objects *volumes.Objects

	mu      sync.Mutex
	workers map[types.UID]*worker
	// finished are the pods whose worker has ended while their object stays,
	// for a finalizer: they must not run again.
	finished sets.Set[types.UID]
	running  sync.WaitGroup
	// stopping ends when the node does.
	stopping context.Context
	stop     context.CancelFunc
}

var _ cache.ResourceEventHandler = (*Manager)(nil)

// NewManager clears what an earlier node left in the directory: its processes
// have died with it.
func NewManager(config Config) (*Manager, error) {
	entries, err := os.ReadDir(config.Dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(config.Dir, entry.Name())); err != nil {
			return nil, err
		}
	}
	m := &Manager{
		Config:   config,
		objects:  volumes.NewObjects(config.Client),
		workers:  map[types.UID]*worker{},
		finished: sets.New[types.UID](),
	}
	m.stopping, m.stop = context.WithCancel(context.Background())
	return m, nil
}

// OnAdd implements cache.ResourceEventHandler.
func (m *Manager) OnAdd(obj any, _ bool) { m.sync(obj.(*v1.Pod)) }

// OnUpdate implements cache.ResourceEventHandler.
func (m *Manager) OnUpdate(old, obj any) {
	was, is := old.(*v1.Pod), obj.(*v1.Pod)
	if was.UID != is.UID {
		m.remove(was)
	}
	m.sync(is)
}

// OnDelete implements cache.ResourceEventHandler.
func (m *Manager) OnDelete(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if pod, ok := obj.(*v1.Pod); ok {
		m.remove(pod)
	}
}

func (m *Manager) sync(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping.Err() != nil || m.finished.Has(pod.UID) {
		return
	}
	w, ok := m.workers[pod.UID]
	if !ok {
		w = newWorker(m, pod)
		m.workers[pod.UID] = w
		m.running.Add(1)
		go func() {
			defer m.running.Done()
			w.run()
			m.forget(w)
		}()
	}
	w.update(pod)
}

func (m *Manager) remove(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished.Delete(pod.UID)
	if w, ok := m.workers[pod.UID]; ok {
		w.remove(pod)
	}
}

func (m *Manager) forget(w *worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := w.current().UID
	delete(m.workers, uid)
	if !w.isRemoved() {
		m.finished.Insert(uid)
	}
}

// find prefers a pod whose object exists over an earlier one of its name.
func (m *Manager) find(namespace, name string) (*worker, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found *worker
	for _, w := range m.workers {
		if pod := w.current(); pod.Namespace == namespace && pod.Name == name && (found == nil || found.isRemoved()) {
			found = w
		}
	}
	if found == nil {
		return nil, fmt.Errorf("pod %s/%s is not on this node", namespace, name)
	}
	return found, nil
}

// Pods are those that have a worker.
func (m *Manager) Pods() []*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	pods := make([]*v1.Pod, 0, len(m.workers))
	for _, w := range m.workers {
		pods = append(pods, w.current().DeepCopy())
	}
	return pods
}

// Shutdown ends every process, within the grace period, and removes what the
// pods kept on disk. Their objects stay, for a node that comes back.
func (m *Manager) Shutdown(grace time.Duration) {
	m.mu.Lock()
	m.stop()
	for _, w := range m.workers {
		w.shutdown(grace)
	}
	m.mu.Unlock()
	m.running.Wait()
}
