package podworker

import (
	"bytes"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"beckon.dev/beckon/tests/cluster/internal/prober"
	"beckon.dev/beckon/tests/cluster/internal/process"
)

// maxProbeOutput is what of a command's output is kept.
const maxProbeOutput = 10 * 1024

// startProbes has the startup probe hold back the other two.
func (w *worker) startProbes(ctx context.Context, c *container, p *process.Process) {
	others := func() {
		if c.spec.ReadinessProbe != nil {
			go w.probeReadiness(ctx, c, p)
		}
		if c.spec.LivenessProbe != nil {
			go w.probe(ctx, c, p, "Liveness", c.spec.LivenessProbe, w.liveness(c, p, "liveness", c.spec.LivenessProbe))
		}
	}
	if c.spec.StartupProbe == nil {
		others()
		return
	}
	failed := w.liveness(c, p, "startup", c.spec.StartupProbe)
	go w.probe(ctx, c, p, "Startup", c.spec.StartupProbe, func(result prober.Result) bool {
		if !result.OK || !result.Settled {
			return failed(result)
		}
		w.locked(func() {
			c.started = c.process == p
			c.ready = c.started && c.spec.ReadinessProbe == nil
		})
		others()
		return false
	})
}

func (w *worker) probeReadiness(ctx context.Context, c *container, p *process.Process) {
	w.probe(ctx, c, p, "Readiness", c.spec.ReadinessProbe, func(result prober.Result) bool {
		if result.Settled {
			w.locked(func() { c.ready = result.OK && c.process == p })
		}
		return true
	})
}

// liveness stops a container that has failed; its restart policy then decides.
func (w *worker) liveness(c *container, p *process.Process, kind string, spec *v1.Probe) func(prober.Result) bool {
	return func(result prober.Result) bool {
		if result.OK || !result.Settled {
			return true
		}
		w.event(v1.EventTypeNormal, "Killing", "Container %s failed %s probe, will be restarted", c.spec.Name, kind)
		grace := specGrace(w.current())
		if spec.TerminationGracePeriodSeconds != nil {
			grace = time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
		}
		w.stopContainer(c, p, grace)
		return false
	}
}

func (w *worker) probe(ctx context.Context, c *container, p *process.Process, kind string, spec *v1.Probe, report func(prober.Result) bool) {
	target := prober.Target{
		Container: c.spec,
		PodIP:     w.ip.String(),
		StartedAt: p.StartedAt,
		Exec: func(ctx context.Context, command []string) (int, string, error) {
			return w.execIn(ctx, c, p, command)
		},
	}
	prober.Run(ctx, spec, target, func(result prober.Result) bool {
		if !result.OK {
			w.event(v1.EventTypeWarning, "Unhealthy", "%s probe failed: %s", kind, result.Message)
		}
		return report(result)
	})
}

// execIn runs a command in a container until it ends or the context does.
func (w *worker) execIn(ctx context.Context, c *container, p *process.Process, command []string) (int, string, error) {
	var output limitedBuffer
	e, err := w.startExec(c, p, command, process.Streams{Stdout: &output, Stderr: &output})
	if err != nil {
		return 0, "", err
	}
	select {
	case <-e.Done():
	case <-ctx.Done():
		e.Kill()
	}
	return e.ExitCode(), output.String(), nil
}

// startExec runs a command with the environment and the user of a container.
func (w *worker) startExec(c *container, p *process.Process, command []string, streams process.Streams) (*process.Process, error) {
	w.mu.Lock()
	spec := c.ran
	w.mu.Unlock()
	spec.Command = command
	return p.Exec(spec, streams)
}

// limitedBuffer drops what is too much. os/exec copies both streams of a
// command from one goroutine when they are the same writer.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := maxProbeOutput - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
