// Package environment works out a container's environment and arguments as the
// kubelet does.
package environment

import (
	"context"
	"fmt"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourceutil "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// Source finds what variables refer to.
type Source interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Runtime holds what is known of a pod only once it runs.
type Runtime struct {
	PodIP, HostIP string
	// Base are the variables that any container has, for it to override.
	Base []v1.EnvVar
}

// Variables are in the order in which they were first named, as NAME=value.
func Variables(ctx context.Context, source Source, pod *v1.Pod, container *v1.Container, rt Runtime) ([]string, error) {
	env := &variables{values: map[string]string{}}
	for _, e := range rt.Base {
		env.set(e.Name, e.Value)
	}
	for _, from := range container.EnvFrom {
		if err := env.addFrom(ctx, source, pod.Namespace, from); err != nil {
			return nil, err
		}
	}
	// A reference sees what was defined before it, and nothing after.
	mapping := expansion.MappingFuncFor(env.values)
	for _, e := range container.Env {
		if e.ValueFrom == nil {
			env.set(e.Name, expansion.Expand(e.Value, mapping))
			continue
		}
		value, found, err := valueFrom(ctx, source, pod, container, e.ValueFrom, rt)
		if err != nil {
			return nil, err
		}
		if found {
			env.set(e.Name, value)
		}
	}
	return env.list(), nil
}

// Arguments expands the references to variables in a command line.
func Arguments(container *v1.Container, env []string) []string {
	values := map[string]string{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	mapping := expansion.MappingFuncFor(values)
	var args []string
	for _, arg := range append(append([]string(nil), container.Command...), container.Args...) {
		args = append(args, expansion.Expand(arg, mapping))
	}
	return args
}

type variables struct {
	names  []string
	values map[string]string
}

func (v *variables) set(name, value string) {
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

func (v *variables) list() []string {
	list := make([]string, 0, len(v.names))
	for _, name := range v.names {
		list = append(list, name+"="+v.values[name])
	}
	return list
}

func (v *variables) addFrom(ctx context.Context, source Source, namespace string, from v1.EnvFromSource) error {
	data := map[string]string{}
	switch {
	case from.ConfigMapRef != nil:
		configMap, err := source.ConfigMap(ctx, namespace, from.ConfigMapRef.Name)
		if err != nil {
			return unlessOptional(err, from.ConfigMapRef.Optional)
		}
		data = configMap.Data
	case from.SecretRef != nil:
		secret, err := source.Secret(ctx, namespace, from.SecretRef.Name)
		if err != nil {
			return unlessOptional(err, from.SecretRef.Optional)
		}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
	}
	keys := make([]string, 0, len(data))
	for key := range data {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		v.set(from.Prefix+key, data[key])
	}
	return nil
}

func unlessOptional(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

func valueFrom(ctx context.Context, source Source, pod *v1.Pod, container *v1.Container, from *v1.EnvVarSource, rt Runtime) (string, bool, error) {
	switch {
	case from.FieldRef != nil:
		value, err := field(pod, from.FieldRef.FieldPath, rt)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := resourceutil.ExtractContainerResourceValue(from.ResourceFieldRef, container)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		configMap, err := source.ConfigMap(ctx, pod.Namespace, ref.Name)
		if err != nil {
			return "", false, unlessOptional(err, ref.Optional)
		}
		value, ok := configMap.Data[ref.Key]
		return value, ok, missingKey(ok, ref.Optional, ref.Key, "ConfigMap", pod.Namespace, ref.Name)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		secret, err := source.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			return "", false, unlessOptional(err, ref.Optional)
		}
		value, ok := secret.Data[ref.Key]
		return string(value), ok, missingKey(ok, ref.Optional, ref.Key, "Secret", pod.Namespace, ref.Name)
	}
	return "", false, fmt.Errorf("this node has no such source of a variable: %s", from.String())
}

func missingKey(ok bool, optional *bool, key, kind, namespace, name string) error {
	if ok || optional != nil && *optional {
		return nil
	}
	return fmt.Errorf("couldn't find key %v in %s %v/%v", key, kind, namespace, name)
}

func field(pod *v1.Pod, path string, rt Runtime) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return rt.HostIP, nil
	case "status.podIP", "status.podIPs":
		return rt.PodIP, nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}
