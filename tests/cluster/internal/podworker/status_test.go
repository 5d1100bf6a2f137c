package podworker

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

func testPod(policy v1.RestartPolicy, inits, mains int) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}}
	for i := range inits {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: string(rune('i' + i))})
	}
	for i := range mains {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: string(rune('a' + i))})
	}
	return pod
}

func waiting(last ...int32) v1.ContainerStatus {
	status := v1.ContainerStatus{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "x"}}}
	if len(last) > 0 {
		status.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: last[0]}
	}
	return status
}

func runs() v1.ContainerStatus {
	return v1.ContainerStatus{Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func ended(exitCode int32) v1.ContainerStatus {
	return v1.ContainerStatus{Ready: exitCode == 0, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: exitCode}}}
}

type statuses = []v1.ContainerStatus

func TestPhase(t *testing.T) {
	const always, onFailure, never = v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever
	for _, c := range []struct {
		name         string
		policy       v1.RestartPolicy
		inits, mains statuses
		ended        bool
		deleting     bool
		want         v1.PodPhase
	}{
		{"nothing started", always, nil, statuses{waiting()}, false, false, v1.PodPending},
		{"one of two started", always, nil, statuses{runs(), waiting()}, false, false, v1.PodPending},
		{"all run", always, nil, statuses{runs(), runs()}, false, false, v1.PodRunning},
		{"an init container runs", always, statuses{runs()}, statuses{waiting()}, false, false, v1.PodPending},
		{"an init container failed for good", never, statuses{ended(1)}, statuses{waiting()}, true, false, v1.PodFailed},
		{"an init container will be tried again", always, statuses{waiting(1)}, statuses{waiting()}, false, false, v1.PodPending},
		{"init containers done", always, statuses{ended(0)}, statuses{runs()}, false, false, v1.PodRunning},
		{"in a crash loop", always, nil, statuses{waiting(1)}, false, false, v1.PodRunning},
		{"ended, to be restarted", always, nil, statuses{ended(0)}, false, false, v1.PodRunning},
		{"failed, to be restarted", onFailure, nil, statuses{ended(0), ended(2)}, false, false, v1.PodRunning},
		{"succeeded", onFailure, nil, statuses{ended(0), ended(0)}, true, false, v1.PodSucceeded},
		{"failed", never, nil, statuses{ended(0), ended(3)}, true, false, v1.PodFailed},
		{"one still runs", never, nil, statuses{runs(), ended(3)}, false, false, v1.PodRunning},
		{"deleted, ended well", always, nil, statuses{ended(0)}, true, true, v1.PodSucceeded},
		{"deleted, killed", always, nil, statuses{ended(137)}, true, true, v1.PodFailed},
		{"deleted in a crash loop", always, nil, statuses{waiting(1)}, true, true, v1.PodFailed},
		{"the node stops", always, nil, statuses{ended(143)}, true, false, v1.PodRunning},
	} {
		s := snapshot{pod: testPod(c.policy, len(c.inits), len(c.mains)), inits: c.inits, mains: c.mains, ended: c.ended, deleting: c.deleting}
		if got := phase(s); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPodStatus(t *testing.T) {
	pod := testPod(v1.RestartPolicyNever, 0, 1)
	named := func(status v1.ContainerStatus) statuses {
		status.Name = "a"
		return statuses{status}
	}
	foreign := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}
	old := v1.PodStatus{QOSClass: v1.PodQOSBurstable, Conditions: []v1.PodCondition{foreign}}

	status := podStatus(snapshot{pod: pod, mains: named(runs()), podIP: "127.64.0.1", hostIP: "127.0.0.1"}, old)
	if status.Phase != v1.PodRunning || status.PodIP != "127.64.0.1" || status.QOSClass != v1.PodQOSBurstable || status.StartTime == nil {
		t.Errorf("got %+v", status)
	}
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady, v1.DisruptionTarget} {
		if _, c := podutil.GetPodCondition(&status, kind); c == nil || c.Status != v1.ConditionTrue {
			t.Errorf("%s: got %v", kind, c)
		}
	}

	done := podStatus(snapshot{pod: pod, mains: named(ended(3)), ended: true}, status)
	if _, c := podutil.GetPodCondition(&done, v1.PodReady); done.Phase != v1.PodFailed || c.Status != v1.ConditionFalse || c.Reason != "PodFailed" {
		t.Errorf("got %s, %+v", done.Phase, c)
	}
	later := podStatus(snapshot{pod: pod, mains: named(waiting())}, done)
	if later.Phase != v1.PodFailed {
		t.Errorf("the phase went back to %s", later.Phase)
	}
	failed := podStatus(snapshot{pod: pod, mains: named(ended(0)), ended: true, failure: &failure{"DeadlineExceeded", "late"}}, status)
	if failed.Phase != v1.PodFailed || failed.Reason != "DeadlineExceeded" || failed.Message != "late" {
		t.Errorf("got %s, %s", failed.Phase, failed.Reason)
	}
}

func TestBackOffGrowsAndResets(t *testing.T) {
	c := &container{}
	for i, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		if got := c.nextBackOff(time.Second, 5*time.Minute); got != want*time.Second {
			t.Errorf("restart %d: got %s, want %ds", i, got, want)
		}
	}
	if got := c.nextBackOff(time.Hour, 5*time.Minute); got != 0 {
		t.Errorf("after a long run: got %s", got)
	}
	short := &container{}
	short.nextBackOff(0, time.Second)
	if got := short.nextBackOff(0, time.Second); got != time.Second {
		t.Errorf("with a bound of 1s: got %s", got)
	}
}

func TestResume(t *testing.T) {
	seen := func(policy v1.RestartPolicy, state v1.ContainerState) *container {
		pod := testPod(policy, 0, 1)
		pod.Status.ContainerStatuses = statuses{{Name: "a", ContainerID: "process://1-1", RestartCount: 4, State: state}}
		return newContainer(pod, &pod.Spec.Containers[0], false)
	}
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	c := seen(v1.RestartPolicyAlways, running)
	if c.done || c.restarts != 5 || c.last.Terminated == nil || c.last.Terminated.ExitCode != exitCodeUnknown {
		t.Errorf("to be restarted: got %+v", c)
	}
	c = seen(v1.RestartPolicyNever, running)
	if !c.done || c.state.Terminated == nil || c.state.Terminated.Reason != reasonStatusUnknown {
		t.Errorf("lost: got %+v", c)
	}
	c = seen(v1.RestartPolicyOnFailure, v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 0}})
	if !c.done || c.restarts != 4 {
		t.Errorf("done: got %+v", c)
	}
}

func TestStatusPatchHoldsOnlyWhatChanged(t *testing.T) {
	old := v1.PodStatus{Phase: v1.PodPending, HostIP: "127.0.0.1"}
	status := *old.DeepCopy()
	status.Phase = v1.PodRunning
	patch, err := statusPatch("uid", old, status)
	if want := `{"metadata":{"uid":"uid"},"status":{"phase":"Running"}}`; err != nil || string(patch) != want {
		t.Errorf("got %s, %v", patch, err)
	}
}
