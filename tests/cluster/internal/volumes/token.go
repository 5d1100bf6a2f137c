package volumes

import (
	"context"
	"errors"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

// tokenCache holds the tokens of a pod by audience and lifetime.
type tokenCache map[tokenKey]token

type tokenKey struct {
	audience string
	seconds  int64
}

type token struct {
	value   string
	renewAt time.Time
}

// token asks for a new one in the last fifth of the old one's life.
func (s *Set) token(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection, mode *int32) (payload, error) {
	if mode == nil || source.ExpirationSeconds == nil {
		return nil, errors.New("no defaultMode or expirationSeconds")
	}
	key := tokenKey{source.Audience, *source.ExpirationSeconds}
	cached, ok := s.tokens[key]
	if !ok || time.Now().After(cached.renewAt) {
		value, err := s.requestToken(ctx, pod, key)
		if err != nil {
			return nil, err
		}
		cached = token{value, time.Now().Add(time.Duration(key.seconds) * time.Second * 4 / 5)}
		s.tokens[key] = cached
	}
	file := volumeutil.FileProjection{Data: []byte(cached.value), Mode: *mode, FsUser: tokenOwner(pod)}
	if file.FsUser != nil || fsGroup(pod) != nil {
		file.Mode = 0o600
	}
	return payload{source.Path: file}, nil
}

func (s *Set) requestToken(ctx context.Context, pod *v1.Pod, key tokenKey) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	accounts := s.objects.client.CoreV1().ServiceAccounts(pod.Namespace)
	issued, err := accounts.CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return issued.Status.Token, nil
}
