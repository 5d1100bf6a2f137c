package podworker

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"beckon.dev/beckon/tests/cluster/internal/podip"
	"beckon.dev/beckon/tests/cluster/internal/process"
)

// node runs real processes for the pods of an API server in memory.
type node struct {
	*testing.T
	client  *fake.Clientset
	manager *Manager
}

func startNode(t *testing.T) *node {
	t.Helper()
	isolation, err := process.Detect(t.TempDir())
	if err != nil {
		t.Logf("not isolated fully: %v", err)
	}
	addresses, err := podip.New("127.72.0.0/24", uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	manager, err := NewManager(Config{
		Client: client, Recorder: &record.FakeRecorder{}, Addresses: addresses, Isolation: isolation, HostIP: "127.0.0.1",
		Images: map[string]string{"image": t.TempDir()}, Dir: t.TempDir(), MaxContainerRestartPeriod: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(client, 0)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(manager); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		manager.Shutdown(0)
		stop()
		factory.Shutdown()
		if left, _ := filepath.Glob(filepath.Join(manager.Dir, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return &node{t, client, manager}
}

func (n *node) create(name string, policy v1.RestartPolicy, script string, change ...func(*v1.Pod)) {
	n.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{
			RestartPolicy:                 policy,
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			Volumes:                       []v1.Volume{{Name: "dir", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
			Containers: []v1.Container{{
				Name: "main", Image: "image", Command: []string{"/bin/sh", "-c", script},
				TerminationMessagePath: "/dev/termination-log",
				VolumeMounts:           []v1.VolumeMount{{Name: "dir", MountPath: "/shared"}},
			}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	if _, err := n.client.CoreV1().Pods("ns").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		n.Fatal(err)
	}
}

// await polls until the pod is as it should be.
func (n *node) await(name, what string, ok func(*v1.Pod) bool) *v1.Pod {
	n.Helper()
	var pod *v1.Pod
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if pod, err = n.client.CoreV1().Pods("ns").Get(context.Background(), name, metav1.GetOptions{}); err == nil && ok(pod) {
			return pod
		}
	}
	n.Fatalf("%s: not %s: %+v", name, what, pod.Status)
	return nil
}

func (n *node) logs(name string, options v1.PodLogOptions) string {
	n.Helper()
	logs, err := n.manager.Logs(context.Background(), "ns", name, "main", &options)
	if err != nil {
		n.Fatal(err)
	}
	defer logs.Close()
	data, err := io.ReadAll(logs)
	if err != nil {
		n.Fatal(err)
	}
	return string(data)
}

func ready(pod *v1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].Ready
}

func phaseIs(phase v1.PodPhase) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool { return pod.Status.Phase == phase }
}

func TestExitCodeAndMessage(t *testing.T) {
	n := startNode(t)
	n.create("exit", v1.RestartPolicyNever, "echo said; echo why >/dev/termination-log; exit 3")
	pod := n.await("exit", "failed", phaseIs(v1.PodFailed))
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	if ended == nil || ended.ExitCode != 3 || ended.Reason != "Error" {
		t.Errorf("got %+v", ended)
	}
	if n.manager.Isolation != process.None && ended.Message != "why\n" {
		t.Errorf("got the message %q", ended.Message)
	}
	if got := n.logs("exit", v1.PodLogOptions{}); got != "said\n" {
		t.Errorf("got the log %q", got)
	}
}

func TestInitContainersComeFirst(t *testing.T) {
	n := startNode(t)
	n.create("init", v1.RestartPolicyNever, "cat /shared/file", func(pod *v1.Pod) {
		first := pod.Spec.Containers[0]
		first.Name, first.Command = "first", []string{"/bin/sh", "-c", "sleep 0.2; echo prepared >/shared/file"}
		pod.Spec.InitContainers = []v1.Container{first}
	})
	n.await("init", "succeeded", phaseIs(v1.PodSucceeded))
	if got := n.logs("init", v1.PodLogOptions{}); got != "prepared\n" {
		t.Errorf("got the log %q", got)
	}
}

func TestRestarts(t *testing.T) {
	n := startNode(t)
	n.create("restarts", v1.RestartPolicyOnFailure, `echo run >>/shared/runs; echo $(wc -l </shared/runs); test $(wc -l </shared/runs) = 3`)
	pod := n.await("restarts", "succeeded", phaseIs(v1.PodSucceeded))
	if status := pod.Status.ContainerStatuses[0]; status.RestartCount != 2 || status.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("got %+v", status)
	}
	if now, before := n.logs("restarts", v1.PodLogOptions{}), n.logs("restarts", v1.PodLogOptions{Previous: true}); now != "3\n" || before != "2\n" {
		t.Errorf("got the logs %q and %q", now, before)
	}
}

func TestDeletionIsGraceful(t *testing.T) {
	n := startNode(t)
	n.create("deleted", v1.RestartPolicyAlways, "trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done")
	pod := n.await("deleted", "ready", ready)
	var followed bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		followed.WriteString(n.logs("deleted", v1.PodLogOptions{Follow: true}))
	}()
	time.Sleep(100 * time.Millisecond)
	// What an API server does with a deletion that has a grace period.
	deletion := metav1.Now()
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deletion, ptr.To[int64](5)
	pods := n.client.CoreV1().Pods("ns")
	if _, err := pods.Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := pods.Get(context.Background(), "deleted", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the object is still there")
		}
	}
	<-done
	if !strings.HasSuffix(followed.String(), "asked\n") {
		t.Errorf("got the log %q", followed.String())
	}
}

func TestProbes(t *testing.T) {
	n := startNode(t)
	if n.manager.Isolation == process.User {
		t.Skip("exec needs root")
	}
	n.create("probed", v1.RestartPolicyAlways, "touch /shared/alive; while :; do sleep 0.01; done", func(pod *v1.Pod) {
		exec := func(script string) *v1.Probe {
			return &v1.Probe{
				ProbeHandler:     v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/bin/sh", "-c", script}}},
				PeriodSeconds:    1,
				FailureThreshold: 1,
			}
		}
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		pod.Spec.Containers[0].ReadinessProbe = exec("sleep 0.3; test -e /shared/alive")
		pod.Spec.Containers[0].LivenessProbe = exec("sleep 0.5; test -e /shared/alive && rm /shared/alive")
	})
	n.await("probed", "running, not yet ready", func(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodRunning && !ready(pod) })
	n.await("probed", "ready", ready)
	n.await("probed", "restarted", func(pod *v1.Pod) bool { return pod.Status.ContainerStatuses[0].RestartCount > 0 })
}

func TestWhatCannotRunSaysWhy(t *testing.T) {
	n := startNode(t)
	n.create("image", v1.RestartPolicyNever, "", func(pod *v1.Pod) { pod.Spec.Containers[0].Image = "other" })
	n.create("secret", v1.RestartPolicyNever, "", func(pod *v1.Pod) {
		ref := &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Key: "key"}
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{SecretKeyRef: ref}}}
	})
	for name, reason := range map[string]string{"image": "ErrImagePull", "secret": "CreateContainerConfigError"} {
		n.await(name, reason, func(pod *v1.Pod) bool {
			return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting != nil &&
				pod.Status.ContainerStatuses[0].State.Waiting.Reason == reason
		})
	}
	n.create("command", v1.RestartPolicyNever, "", func(pod *v1.Pod) { pod.Spec.Containers[0].Command = []string{"none-such"} })
	pod := n.await("command", "failed", phaseIs(v1.PodFailed))
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; ended.Reason != "StartError" || ended.ExitCode != 128 {
		t.Errorf("got %+v", ended)
	}
}
