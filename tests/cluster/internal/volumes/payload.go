package volumes

import (
	"context"
	"errors"
	"fmt"
	"path"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourceutil "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/secret"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

type payload = map[string]volumeutil.FileProjection

func (s *Set) payload(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (payload, error) {
	switch {
	case volume.Secret != nil:
		source := volume.Secret
		return s.secret(ctx, pod, source.SecretName, source.Items, source.DefaultMode, source.Optional)
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		return s.configMap(ctx, pod, source.Name, source.Items, source.DefaultMode, source.Optional)
	case volume.DownwardAPI != nil:
		return downwardAPI(pod, volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		return s.projected(ctx, pod, volume)
	}
	return nil, errors.New("this node has no volumes of this kind")
}

func (s *Set) projected(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (payload, error) {
	all := payload{}
	mode := volume.Projected.DefaultMode
	for _, source := range volume.Projected.Sources {
		part, err := payload(nil), error(nil)
		switch {
		case source.Secret != nil:
			part, err = s.secret(ctx, pod, source.Secret.Name, source.Secret.Items, mode, source.Secret.Optional)
		case source.ConfigMap != nil:
			part, err = s.configMap(ctx, pod, source.ConfigMap.Name, source.ConfigMap.Items, mode, source.ConfigMap.Optional)
		case source.DownwardAPI != nil:
			part, err = downwardAPI(pod, source.DownwardAPI.Items, mode)
		case source.ServiceAccountToken != nil:
			part, err = s.token(ctx, pod, source.ServiceAccountToken, mode)
		default:
			err = errors.New("this node has no such projection")
		}
		if err != nil {
			return nil, err
		}
		for name, file := range part {
			all[name] = file
		}
	}
	return all, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func (s *Set) secret(ctx context.Context, pod *v1.Pod, name string, items []v1.KeyToPath, mode *int32, optional *bool) (payload, error) {
	object, err := s.objects.Secret(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		object, err = &v1.Secret{}, nil
	}
	if err != nil {
		return nil, err
	}
	return secret.MakePayload(items, object, mode, isTrue(optional))
}

func (s *Set) configMap(ctx context.Context, pod *v1.Pod, name string, items []v1.KeyToPath, mode *int32, optional *bool) (payload, error) {
	object, err := s.objects.ConfigMap(ctx, pod.Namespace, name)
	if apierrors.IsNotFound(err) && isTrue(optional) {
		object, err = &v1.ConfigMap{}, nil
	}
	if err != nil {
		return nil, err
	}
	return configmap.MakePayload(items, object, mode, isTrue(optional))
}

func downwardAPI(pod *v1.Pod, items []v1.DownwardAPIVolumeFile, defaultMode *int32) (payload, error) {
	files := payload{}
	for _, item := range items {
		mode := defaultMode
		if item.Mode != nil {
			mode = item.Mode
		}
		if mode == nil {
			return nil, errors.New("no defaultMode")
		}
		value, err := downwardValue(pod, item)
		if err != nil {
			return nil, err
		}
		files[path.Clean(item.Path)] = volumeutil.FileProjection{Data: []byte(value), Mode: *mode}
	}
	return files, nil
}

func downwardValue(pod *v1.Pod, item v1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case item.FieldRef != nil:
		return fieldpath.ExtractFieldPathAsString(pod, item.FieldRef.FieldPath)
	case item.ResourceFieldRef != nil:
		return resourceutil.ExtractResourceValueByContainerName(item.ResourceFieldRef, pod, item.ResourceFieldRef.ContainerName)
	}
	return "", fmt.Errorf("%s: neither a field nor a resource", item.Path)
}
