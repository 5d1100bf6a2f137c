package containerlogs

import (
	"context"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"
)

// Read copies a log as the options ask, and follows it while the container
// runs.
func Read(ctx context.Context, path string, options *v1.PodLogOptions, running func() bool, out io.Writer) error {
	opts := &logs.LogOptions{
		TailLines:  options.TailLines,
		LimitBytes: options.LimitBytes,
		Follow:     options.Follow,
		Timestamp:  options.Timestamps,
	}
	if options.SinceSeconds != nil {
		opts.Since = time.Now().Add(-time.Duration(*options.SinceSeconds) * time.Second)
	}
	if options.SinceTime != nil {
		opts.Since = options.SinceTime.Time
	}
	return logs.ReadLogs(ctx, path, "", opts, following{running: running}, out, out)
}

// following answers the one question that the reader has for a runtime.
type following struct {
	internalapi.RuntimeService
	running func() bool
}

func (f following) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	state := runtimeapi.ContainerState_CONTAINER_EXITED
	if f.running() {
		state = runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: state}}, nil
}
