package environment

import (
	"context"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type fakeSource struct{}

func (fakeSource) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	if name != "secret" {
		return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
	}
	return &v1.Secret{Data: map[string][]byte{"key": []byte("hidden")}}, nil
}

func (fakeSource) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	if name != "map" {
		return nil, apierrors.NewNotFound(v1.Resource("configmaps"), name)
	}
	return &v1.ConfigMap{Data: map[string]string{"b": "2", "a": "1"}}, nil
}

func pod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "ns", UID: "uid", Labels: map[string]string{"app": "x"}},
		Spec:       v1.PodSpec{NodeName: "node", ServiceAccountName: "sa"},
	}
}

func fieldRef(path string) *v1.EnvVarSource {
	return &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
}

func TestVariables(t *testing.T) {
	container := &v1.Container{
		EnvFrom: []v1.EnvFromSource{{Prefix: "M_", ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "map"}}}},
		Env: []v1.EnvVar{
			{Name: "NAME", ValueFrom: fieldRef("metadata.name")},
			{Name: "APP", ValueFrom: fieldRef("metadata.labels['app']")},
			{Name: "IP", ValueFrom: fieldRef("status.podIP")},
			{Name: "URL", Value: "http://$(IP)/$(M_a)/$(LATER)/$$(IP)"},
			{Name: "LATER", Value: "later"},
			{Name: "M_a", Value: "overridden"},
			{Name: "PASSWORD", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
				LocalObjectReference: v1.LocalObjectReference{Name: "secret"}, Key: "key"}}},
			{Name: "BASE", Value: "$(BASE):more"},
		},
		Command: []string{"run", "$(NAME)"},
		Args:    []string{"--url=$(URL)", "$(UNKNOWN)"},
	}
	env, err := Variables(context.Background(), fakeSource{}, pod(), container, Runtime{
		PodIP: "127.64.0.1", Base: []v1.EnvVar{{Name: "BASE", Value: "base"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"BASE=base:more", "M_a=overridden", "M_b=2", "NAME=pod", "APP=x", "IP=127.64.0.1",
		"URL=http://127.64.0.1/1/$(LATER)/$(IP)", "LATER=later", "PASSWORD=hidden",
	}
	if !reflect.DeepEqual(env, want) {
		t.Errorf("got  %q\nwant %q", env, want)
	}
	args := Arguments(container, env)
	if want := []string{"run", "pod", "--url=http://127.64.0.1/1/$(LATER)/$(IP)", "$(UNKNOWN)"}; !reflect.DeepEqual(args, want) {
		t.Errorf("got %q, want %q", args, want)
	}
}

func TestWhatIsMissing(t *testing.T) {
	yes := true
	ref := func(name, key string, optional *bool) *v1.EnvVarSource {
		return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
			LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	for _, c := range []struct {
		from *v1.EnvVarSource
		want string
	}{
		{ref("none", "key", nil), `secrets "none" not found`},
		{ref("secret", "none", nil), "couldn't find key none in Secret ns/secret"},
		{ref("none", "key", &yes), ""},
		{ref("secret", "none", &yes), ""},
		{fieldRef("spec.nonsense"), "unsupported fieldPath"},
	} {
		env, err := Variables(context.Background(), fakeSource{}, pod(), &v1.Container{Env: []v1.EnvVar{{Name: "X", ValueFrom: c.from}}}, Runtime{})
		switch {
		case c.want == "" && (err != nil || len(env) != 0):
			t.Errorf("got %q, %v", env, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
