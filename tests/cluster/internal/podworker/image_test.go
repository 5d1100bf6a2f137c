package podworker

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestWhatAnImageLeavesToItsContainers(t *testing.T) {
	image := imageConfig{Entrypoint: []string{"beckon"}, Cmd: []string{"--help"}}
	for _, c := range []struct {
		container v1.Container
		image     imageConfig
		want      []string
	}{
		{v1.Container{}, image, []string{"beckon", "--help"}},
		{v1.Container{Args: []string{"gateway"}}, image, []string{"beckon", "gateway"}},
		{v1.Container{Command: []string{"sh"}}, image, []string{"sh"}},
		{v1.Container{Command: []string{"sh"}, Args: []string{"-c"}}, image, []string{"sh", "-c"}},
		{v1.Container{Args: []string{"sh"}}, imageConfig{}, []string{"sh"}},
	} {
		filled := commandLine(&c.container, c.image)
		if got := append(slices.Clone(filled.Command), filled.Args...); !slices.Equal(got, c.want) {
			t.Errorf("%v with %v: got %v, want %v", c.container, c.image, got, c.want)
		}
	}
}

func TestAllAddressesAreThePods(t *testing.T) {
	got := listenOnPodIP([]string{"gateway", "--listen=0.0.0.0:80", "--admin", "[::]:81", "10.0.0.0:82", "0.0.0.0"}, "127.1.2.3")
	want := []string{"gateway", "--listen=127.1.2.3:80", "--admin", "127.1.2.3:81", "10.0.0.0:82", "0.0.0.0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEntryPoint(t *testing.T) {
	n := startNode(t)
	config := `{"Entrypoint": ["/bin/sh", "-c", "echo \"$0 $1\""], "Cmd": ["of", "the image"]}`
	if err := os.WriteFile(filepath.Join(n.manager.Images["image"], imageConfigFile), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pod  string
		args []string
		want string
	}{
		{"cmd", nil, "of the image\n"},
		{"args", []string{"of", "its own"}, "of its own\n"},
	} {
		n.create(c.pod, v1.RestartPolicyNever, "", func(pod *v1.Pod) {
			pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args = nil, c.args
		})
		n.await(c.pod, "succeeded", phaseIs(v1.PodSucceeded))
		if got := n.logs(c.pod, v1.PodLogOptions{}); got != c.want {
			t.Errorf("%s: got the log %q", c.pod, got)
		}
	}
}
