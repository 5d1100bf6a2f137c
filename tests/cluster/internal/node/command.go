package node

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/log/klogv2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"beckon.dev/beckon/tests/cluster/internal/podip"
	"beckon.dev/beckon/tests/cluster/internal/podworker"
	"beckon.dev/beckon/tests/cluster/internal/process"
)

// NewCommand is the sub-command.
func NewCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:           "node",
		Short:         "A node that runs the containers of pods as local processes",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return run(ctx, o)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func run(ctx context.Context, o *options) error {
	log.L = klogv2.New(nil)
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	// The defaults would have a burst of new pods wait for their status.
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	recorder, stopEvents := newRecorder(client, o.name)
	defer stopEvents()
	manager, err := newManager(o, config, client, recorder)
	if err != nil {
		return err
	}
	port, stopServer, err := serve(o, manager)
	if err != nil {
		return err
	}
	defer stopServer()

	registered := make(chan error, 1)
	nodeCtx, stopNode := context.WithCancel(context.Background())
	defer stopNode()
	go func() { registered <- register(nodeCtx, client, nodeObject(o, port)) }()

	// The pods outlive the signal by their grace period.
	podsCtx, stopPods := context.WithCancel(context.Background())
	defer stopPods()
	if err := watchPods(podsCtx, client, o.name, manager); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-registered:
	}
	klog.InfoS("Stopping the pods")
	manager.Shutdown(o.shutdownGrace)
	return err
}

func newManager(o *options, config *rest.Config, client kubernetes.Interface, recorder record.EventRecorder) (*podworker.Manager, error) {
	pods := filepath.Join(o.root, "pods")
	if err := os.MkdirAll(pods, 0o700); err != nil {
		return nil, err
	}
	addresses, err := podip.New(o.podCIDR, uint32(time.Now().UnixNano()/int64(time.Millisecond)))
	if err != nil {
		return nil, fmt.Errorf("--pod-cidr: %w", err)
	}
	isolation, err := process.Detect(pods)
	if err != nil {
		klog.ErrorS(err, "Containers are isolated less than they could be", "isolation", isolation)
	}
	klog.InfoS("Starting", "isolation", isolation, "images", o.imageDirectory)
	environment, err := apiServerEnvironment(config)
	if err != nil {
		return nil, err
	}
	return podworker.NewManager(podworker.Config{
		Client: client, Recorder: recorder, Addresses: addresses, Isolation: isolation, HostIP: o.hostIP(),
		Images: o.imageDirectory, Environment: environment, Dir: pods, MaxContainerRestartPeriod: o.restartPeriod,
	})
}

// apiServerEnvironment leads clients in pods to the API server itself, since
// nothing here serves the addresses of services.
func apiServerEnvironment(config *rest.Config) ([]v1.EnvVar, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	return []v1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: server.Hostname()},
		{Name: "KUBERNETES_SERVICE_PORT", Value: port},
		{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: port},
	}, nil
}

func newRecorder(client kubernetes.Interface, name string) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)})
	return broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: name}), broadcaster.Shutdown
}

func watchPods(ctx context.Context, client kubernetes.Interface, name string, manager *podworker.Manager) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", name).String()
	}))
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(manager); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return nil
}

// listenPort is what a listener on port 0 was given.
func listenPort(l net.Listener) int32 { return int32(l.Addr().(*net.TCPAddr).Port) }
