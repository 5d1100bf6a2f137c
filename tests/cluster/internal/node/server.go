package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"beckon.dev/beckon/tests/cluster/internal/podworker"
	"beckon.dev/beckon/tests/cluster/internal/process"
)

// execIdle is how long an exec or a port-forward may be silent.
const execIdle = 4 * time.Hour

// serve offers what of the kubelet API the API server forwards to: logs, exec
// and port-forward. It returns the port, 0 for none.
func serve(o *options, manager *podworker.Manager) (int32, func(), error) {
	if o.listen == "" {
		return 0, func() {}, nil
	}
	config, err := tlsConfig(o)
	if err != nil {
		return 0, nil, err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return 0, nil, err
	}
	server := &http.Server{Handler: handler(manager), TLSConfig: config, ReadHeaderTimeout: 30 * time.Second}
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Serving the kubelet API")
		}
	}()
	return listenPort(listener), func() { server.Close() }, nil
}

func tlsConfig(o *options) (*tls.Config, error) {
	pem, err := os.ReadFile(o.clientCAFile)
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate", o.clientCAFile)
	}
	certificate, err := certificate(o)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
	}, nil
}

func certificate(o *options) (tls.Certificate, error) {
	if o.tlsCertFile != "" {
		return tls.LoadX509KeyPair(o.tlsCertFile, o.tlsKeyFile)
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(o.name, []net.IP{net.ParseIP(o.hostIP())}, nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

func handler(manager *podworker.Manager) http.Handler {
	pods := func(context.Context) ([]*v1.Pod, error) { return manager.Pods(), nil }
	return api.PodHandler(api.PodHandlerConfig{
		GetPods:               pods,
		GetPodsFromKubernetes: pods,
		GetContainerLogs: func(ctx context.Context, namespace, pod, container string, options api.ContainerLogOpts) (io.ReadCloser, error) {
			logs, err := manager.Logs(ctx, namespace, pod, container, logOptions(options))
			if err != nil {
				return nil, errdefs.AsInvalidInput(err)
			}
			return logs, nil
		},
		RunInContainer: func(ctx context.Context, namespace, pod, container string, command []string, streams api.AttachIO) error {
			return manager.Exec(ctx, namespace, pod, container, command, execStreams(streams))
		},
		PortForward: func(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
			return portForward(ctx, manager, namespace, pod, port, stream)
		},
		StreamIdleTimeout:     execIdle,
		StreamCreationTimeout: 30 * time.Second,
	}, false)
}

func logOptions(options api.ContainerLogOpts) *v1.PodLogOptions {
	out := &v1.PodLogOptions{Follow: options.Follow, Previous: options.Previous, Timestamps: options.Timestamps}
	if options.Tail > 0 {
		out.TailLines = ptr.To(int64(options.Tail))
	}
	if options.LimitBytes > 0 {
		out.LimitBytes = ptr.To(int64(options.LimitBytes))
	}
	if options.SinceSeconds > 0 {
		out.SinceSeconds = ptr.To(int64(options.SinceSeconds))
	}
	if !options.SinceTime.IsZero() {
		out.SinceTime = &metav1.Time{Time: options.SinceTime}
	}
	return out
}

// execStreams keeps an absent stream nil, which an interface that holds a nil
// pointer would not be.
func execStreams(streams api.AttachIO) process.Streams {
	out := process.Streams{Stdin: streams.Stdin()}
	if w := streams.Stdout(); w != nil {
		out.Stdout = w
	}
	if w := streams.Stderr(); w != nil {
		out.Stderr = w
	}
	return out
}

func portForward(ctx context.Context, manager *podworker.Manager, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	address, err := manager.Address(namespace, pod)
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
		done <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(stream, conn)
		done <- struct{}{}
	}()
	<-done
	return nil
}
