package podworker

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
	"beckon.dev/beckon/tests/cluster/internal/process"
)

// Reasons that the kubelet uses.
const (
	reasonContainerCreating  = "ContainerCreating"
	reasonPodInitializing    = "PodInitializing"
	reasonErrImagePull       = "ErrImagePull"
	reasonConfigError        = "CreateContainerConfigError"
	reasonCrashLoopBackOff   = "CrashLoopBackOff"
	reasonCompleted          = "Completed"
	reasonError              = "Error"
	reasonStartError         = "StartError"
	reasonStatusUnknown      = "ContainerStatusUnknown"
	exitCodeStartError       = 128
	exitCodeUnknown          = 137
	messageStatusUnknown     = "The container could not be located when the node started"
	resetBackOffAfter        = 10 * time.Minute
	initialBackOff           = 10 * time.Second
	maxTerminationMessage    = 4096
	maxTerminationLogLines   = 80
	maxTerminationLogMessage = 2048
)

// container is guarded by the lock of its worker.
type container struct {
	spec *v1.Container
	init bool

	state    v1.ContainerState
	last     v1.ContainerState
	restarts int32
	id       string
	started  bool
	ready    bool
	process  *process.Process
	// ran is what the process was started with.
	ran nodeexec.Spec
	// done says that an earlier node has seen it end for good.
	done    bool
	backOff time.Duration
}

// newContainer goes on from what the pod's object says of it: then an earlier
// node ran the pod, whose processes have died with it.
func newContainer(pod *v1.Pod, spec *v1.Container, init bool) *container {
	c := &container{spec: spec, init: init}
	c.state.Waiting = &v1.ContainerStateWaiting{Reason: reasonContainerCreating}
	if len(pod.Spec.InitContainers) > 0 {
		c.state.Waiting.Reason = reasonPodInitializing
	}
	statuses := pod.Status.ContainerStatuses
	if init {
		statuses = pod.Status.InitContainerStatuses
	}
	if status, ok := podutil.GetContainerStatus(statuses, spec.Name); ok && status.ContainerID != "" {
		c.resume(pod, status)
	}
	return c
}

func (c *container) resume(pod *v1.Pod, status v1.ContainerStatus) {
	c.restarts, c.id = status.RestartCount, status.ContainerID
	c.last = status.LastTerminationState
	ended := status.State.Terminated
	if status.State.Running != nil {
		ended = &v1.ContainerStateTerminated{
			ExitCode:    exitCodeUnknown,
			Reason:      reasonStatusUnknown,
			Message:     messageStatusUnknown,
			StartedAt:   status.State.Running.StartedAt,
			FinishedAt:  now(),
			ContainerID: status.ContainerID,
		}
	}
	if ended == nil {
		c.restarts++
		return
	}
	// What an init container has prepared is lost with the pod's directory.
	if !c.init && !c.shouldRestart(pod, ended.ExitCode) {
		c.state = v1.ContainerState{Terminated: ended}
		c.done = true
		return
	}
	c.last = v1.ContainerState{Terminated: ended}
	c.restarts++
}

// shouldRestart applies the restart policy.
func (c *container) shouldRestart(pod *v1.Pod, exitCode int32) bool {
	if c.init && exitCode == 0 {
		return false
	}
	return podutil.ContainerShouldRestart(*c.spec, pod.Spec, exitCode)
}

func (c *container) wait(reason, message string) {
	c.state = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func (c *container) running(p *process.Process, ran nodeexec.Spec) {
	c.process, c.ran, c.id = p, ran, p.ID()
	c.state = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now()}}
	c.started = c.spec.StartupProbe == nil
	c.ready = c.started && c.spec.ReadinessProbe == nil
}

func (c *container) terminated(t v1.ContainerStateTerminated) {
	t.ContainerID = c.id
	c.process, c.started, c.ready = nil, false, false
	c.state = v1.ContainerState{Terminated: &t}
}

// restart makes the end of a run the last one.
func (c *container) restart() {
	if c.state.Terminated != nil {
		c.last = c.state
	}
	c.restarts++
}

// nextBackOff grows from nothing for the first restart to the bound.
func (c *container) nextBackOff(ran, bound time.Duration) time.Duration {
	if ran > resetBackOffAfter {
		c.backOff = 0
	}
	delay := c.backOff
	c.backOff = min(max(initialBackOff, 2*delay), bound)
	return delay
}

func (c *container) status() v1.ContainerStatus {
	started := c.started
	status := v1.ContainerStatus{
		Name:                 c.spec.Name,
		State:                *c.state.DeepCopy(),
		LastTerminationState: *c.last.DeepCopy(),
		Ready:                c.ready,
		RestartCount:         c.restarts,
		Image:                c.spec.Image,
		ContainerID:          c.id,
		Started:              &started,
	}
	if c.id != "" {
		status.ImageID = fmt.Sprintf("directory://%s", c.spec.Image)
	}
	if c.init {
		status.Ready = c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
	}
	return status
}
