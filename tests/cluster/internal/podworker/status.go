package podworker

import (
	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubeletstatus "k8s.io/kubernetes/pkg/kubelet/status"
)

// snapshot is what a pod's status follows from.
type snapshot struct {
	pod          *v1.Pod
	inits, mains []v1.ContainerStatus
	podIP        string
	hostIP       string
	failure      *failure
	// ended says that nothing runs or will run; deleting that this is for good
	// whatever the restart policy says.
	ended, deleting bool
}

func (w *worker) snapshot() snapshot {
	s := snapshot{pod: w.pod, hostIP: w.HostIP, failure: w.failure, ended: w.ended, deleting: w.deleting || w.removed}
	if w.ip.IsValid() {
		s.podIP = w.ip.String()
	}
	for _, c := range w.inits {
		s.inits = append(s.inits, c.status())
	}
	for _, c := range w.mains {
		s.mains = append(s.mains, c.status())
	}
	return s
}

// podStatus brings the status that was last reported up to date. Conditions of
// others stay as they are.
func podStatus(s snapshot, old v1.PodStatus) v1.PodStatus {
	status := *old.DeepCopy()
	status.ObservedGeneration = s.pod.Generation
	status.InitContainerStatuses, status.ContainerStatuses = s.inits, s.mains
	status.HostIP, status.HostIPs = s.hostIP, []v1.HostIP{{IP: s.hostIP}}
	if s.podIP != "" {
		status.PodIP, status.PodIPs = s.podIP, []v1.PodIP{{IP: s.podIP}}
	}
	if status.StartTime == nil {
		start := now()
		status.StartTime = &start
	}
	// A phase that says the end is never taken back.
	if old.Phase != v1.PodSucceeded && old.Phase != v1.PodFailed {
		status.Phase = phase(s)
		status.Reason, status.Message = "", ""
		if s.failure != nil {
			status.Reason, status.Message = s.failure.reason, s.failure.message
		}
	}
	set := func(condition v1.PodCondition) { podutil.UpdatePodCondition(&status, &condition) }
	set(v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, ObservedGeneration: s.pod.Generation})
	readyToStart := v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse, ObservedGeneration: s.pod.Generation}
	if s.podIP != "" && !s.ended {
		readyToStart.Status = v1.ConditionTrue
	}
	set(readyToStart)
	set(kubeletstatus.GeneratePodInitializedCondition(s.pod, &old, append(s.inits, s.mains...), status.Phase))
	set(kubeletstatus.GenerateContainersReadyCondition(s.pod, &old, s.mains, status.Phase))
	set(kubeletstatus.GeneratePodReadyCondition(s.pod, &old, s.pod.Status.Conditions, s.mains, status.Phase))
	return status
}

// phase sums up the containers as the kubelet does.
func phase(s snapshot) v1.PodPhase {
	if s.failure != nil && s.ended {
		return v1.PodFailed
	}
	switch initPhase(s) {
	case v1.PodPending:
		return v1.PodPending
	case v1.PodFailed:
		return v1.PodFailed
	}
	running, waiting, succeeded, restarting := 0, 0, 0, 0
	for i, status := range s.mains {
		ended := status.State.Terminated
		if status.State.Waiting != nil {
			ended = status.LastTerminationState.Terminated
		}
		switch {
		case status.State.Running != nil:
			running++
		case ended == nil:
			waiting++
		case podutil.ContainerShouldRestart(s.pod.Spec.Containers[i], s.pod.Spec, ended.ExitCode):
			restarting++
		}
		if status.State.Terminated != nil && ended.ExitCode == 0 {
			succeeded++
		}
	}
	switch {
	case waiting > 0:
		return v1.PodPending
	case running > 0, restarting > 0 && !(s.ended && s.deleting):
		return v1.PodRunning
	case succeeded == len(s.mains):
		return v1.PodSucceeded
	}
	return v1.PodFailed
}

// initPhase is empty when the init containers do not decide.
func initPhase(s snapshot) v1.PodPhase {
	result := v1.PodPhase("")
	for i, status := range s.inits {
		ended := status.State.Terminated
		if status.State.Waiting != nil {
			ended = status.LastTerminationState.Terminated
		}
		switch {
		case status.State.Running != nil || ended == nil:
			result = v1.PodPending
		case ended.ExitCode != 0 && !podutil.ContainerShouldRestart(s.pod.Spec.InitContainers[i], s.pod.Spec, ended.ExitCode):
			return v1.PodFailed
		case ended.ExitCode != 0:
			result = v1.PodPending
		}
	}
	return result
}
