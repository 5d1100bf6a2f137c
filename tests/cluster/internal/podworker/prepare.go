package podworker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"beckon.dev/beckon/tests/cluster/internal/environment"
	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
)

// prepareRetry is the pause before a missing image or a missing secret is
// looked for again.
const prepareRetry = 2 * time.Second

type prepareError struct{ reason, message string }

func (e *prepareError) Error() string { return e.message }

// prepare works out what to run, for as long as it takes.
func (w *worker) prepare(ctx context.Context, c *container) (nodeexec.Spec, bool) {
	reported := ""
	for {
		spec, err := w.spec(ctx, c)
		if err == nil {
			return spec, true
		}
		if ctx.Err() != nil {
			return spec, false
		}
		reason := reasonConfigError
		var known *prepareError
		if errors.As(err, &known) {
			reason = known.reason
		}
		if err.Error() != reported {
			reported = err.Error()
			w.event(v1.EventTypeWarning, "Failed", "Error: %s: %v", reason, err)
			w.locked(func() { c.wait(reason, err.Error()) })
		}
		if !sleep(ctx, prepareRetry) {
			return spec, false
		}
	}
}

func (w *worker) spec(ctx context.Context, c *container) (nodeexec.Spec, error) {
	pod := w.current()
	if c.init && podutil.IsRestartableInitContainer(c.spec) {
		return nodeexec.Spec{}, errors.New("this node has no restartable init containers")
	}
	image, config, err := w.image(c.spec.Image)
	if err != nil {
		return nodeexec.Spec{}, err
	}
	who, err := w.credentials(pod, c.spec)
	if err != nil {
		return nodeexec.Spec{}, err
	}
	env, err := environment.Variables(ctx, w.objects, pod, c.spec, environment.Runtime{
		PodIP: w.ip.String(), HostIP: w.HostIP, Base: w.baseEnvironment(pod, image),
	})
	if err != nil {
		return nodeexec.Spec{}, err
	}
	command := listenOnPodIP(environment.Arguments(commandLine(c.spec, config), env), w.ip.String())
	if len(command) == 0 {
		return nodeexec.Spec{}, &prepareError{"CreateContainerError", "no command specified"}
	}
	mounts, err := w.mounts(pod, c)
	if err != nil {
		return nodeexec.Spec{}, err
	}
	return nodeexec.Spec{
		Command:         command,
		Env:             env,
		Dir:             c.spec.WorkingDir,
		Root:            filepath.Join(w.dir, "rootfs"),
		Mounts:          mounts,
		Image:           image,
		Credentials:     who,
		NoNewPrivileges: noNewPrivileges(c.spec),
	}, nil
}

func (w *worker) baseEnvironment(pod *v1.Pod, image string) []v1.EnvVar {
	return append([]v1.EnvVar{
		{Name: "PATH", Value: w.Isolation.PATH(image)},
		{Name: "HOSTNAME", Value: pod.Name},
	}, w.Environment...)
}

func (w *worker) mounts(pod *v1.Pod, c *container) ([]nodeexec.Mount, error) {
	var mounts []nodeexec.Mount
	for _, m := range c.spec.VolumeMounts {
		source, readOnly, err := w.volume(pod, m)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, nodeexec.Mount{Source: source, Target: m.MountPath, ReadOnly: readOnly})
	}
	file := w.terminationFile(c)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return nil, err
	}
	// The umask has taken away the others' right to write.
	if err := os.Chmod(file, 0o666); err != nil {
		return nil, err
	}
	if path := c.spec.TerminationMessagePath; path != "" {
		mounts = append(mounts, nodeexec.Mount{Source: file, Target: path})
	}
	return mounts, nil
}
