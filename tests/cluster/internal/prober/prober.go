// Package prober runs the probes of a container as the kubelet does.
package prober

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	tcpprobe "k8s.io/kubernetes/pkg/probe/tcp"
)

// Target is the container that is probed.
type Target struct {
	Container *v1.Container
	PodIP     string
	StartedAt time.Time
	// Exec runs a command in the container and returns its output.
	Exec func(ctx context.Context, command []string) (exitCode int, output string, err error)
}

// Result is reported when a threshold is reached, and for each failure.
type Result struct {
	OK bool
	// Settled is false for a failure below the threshold.
	Settled bool
	Message string
}

// Run probes until the context ends or report returns false.
func Run(ctx context.Context, p *v1.Probe, target Target, report func(Result) bool) {
	delay := time.Until(target.StartedAt.Add(time.Duration(p.InitialDelaySeconds) * time.Second))
	if !sleep(ctx, delay) {
		return
	}
	ticker := time.NewTicker(time.Duration(max(p.PeriodSeconds, 1)) * time.Second)
	defer ticker.Stop()
	var last probe.Result
	inRow := int32(0)
	for {
		result, message := Once(ctx, p, target)
		if ctx.Err() != nil {
			return
		}
		if result != last {
			last, inRow = result, 0
		}
		inRow++
		if !report(judge(p, result, inRow, message)) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// judge applies the thresholds.
func judge(p *v1.Probe, result probe.Result, inRow int32, message string) Result {
	if result == probe.Failure {
		return Result{Settled: inRow >= max(p.FailureThreshold, 1), Message: message}
	}
	return Result{OK: true, Settled: inRow >= max(p.SuccessThreshold, 1), Message: message}
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// The certificates of pods are not the node's to judge.
var httpProber = httpprobe.NewWithTLSConfig(&tls.Config{InsecureSkipVerify: true}, false) // #nosec G402

// Once probes a single time.
func Once(ctx context.Context, p *v1.Probe, target Target) (probe.Result, string) {
	timeout := time.Duration(max(p.TimeoutSeconds, 1)) * time.Second
	result, message, err := probe.Unknown, "", error(nil)
	switch {
	case p.HTTPGet != nil:
		result, message, err = httpGet(p.HTTPGet, target, timeout)
	case p.TCPSocket != nil:
		result, message, err = tcpSocket(p.TCPSocket, target, timeout)
	case p.Exec != nil:
		result, message, err = execute(ctx, p.Exec, target, timeout)
	default:
		err = fmt.Errorf("this node has no such probe")
	}
	if err != nil {
		return probe.Failure, err.Error()
	}
	if result == probe.Warning {
		result = probe.Success
	}
	return result, message
}

func httpGet(action *v1.HTTPGetAction, target Target, timeout time.Duration) (probe.Result, string, error) {
	request, err := httpprobe.NewRequestForHTTPGetAction(action, target.Container, target.PodIP, "probe")
	if err != nil {
		return probe.Unknown, "", err
	}
	return httpProber.Probe(request, timeout)
}

func tcpSocket(action *v1.TCPSocketAction, target Target, timeout time.Duration) (probe.Result, string, error) {
	port, err := probe.ResolveContainerPort(action.Port, target.Container)
	if err != nil {
		return probe.Unknown, "", err
	}
	host := action.Host
	if host == "" {
		host = target.PodIP
	}
	return tcpprobe.New().Probe(host, port, timeout)
}

func execute(ctx context.Context, action *v1.ExecAction, target Target, timeout time.Duration) (probe.Result, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	code, output, err := target.Exec(ctx, action.Command)
	switch {
	case ctx.Err() != nil:
		return probe.Failure, fmt.Sprintf("command timed out after %s", timeout), nil
	case err != nil:
		return probe.Failure, err.Error(), nil
	case code != 0:
		return probe.Failure, output, nil
	}
	return probe.Success, output, nil
}
