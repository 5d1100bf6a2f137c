package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Without PID namespaces a container's main process adopts the orphans of its
// descendants, as the first process of a namespace would, and this process
// adopts those of a main process that has ended: then a child of this process
// which it has not started itself is something left over.

// children are the processes that this one has started, for as long as it has
// not waited for them. The lock is held while one starts.
var children = struct {
	sync.Mutex
	started map[int]bool
}{started: map[int]bool{}}

func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killOrphans ends what a container has left behind.
func killOrphans() {
	children.Lock()
	defer children.Unlock()
	// The children of a killed process become ours in turn.
	for {
		orphans := orphans()
		if len(orphans) == 0 {
			return
		}
		for _, pid := range orphans {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
	}
}

func orphans() []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || children.started[pid] {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err == nil && parent(stat) == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parent reads /proc/PID/stat: behind the name, which may hold anything, come
// the state and the parent.
func parent(stat []byte) int {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	pid, _ := strconv.Atoi(string(fields[1]))
	return pid
}
