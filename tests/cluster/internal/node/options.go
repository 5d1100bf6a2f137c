// Package node is a node whose containers are local processes.
package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// options are the command line of a node.
type options struct {
	kubeconfig string
	name       string
	root       string
	images     []string
	podCIDR    string

	listen         string
	clientCAFile   string
	tlsCertFile    string
	tlsKeyFile     string
	shutdownGrace  time.Duration
	restartPeriod  time.Duration
	maxPods        int
	nodeLabels     map[string]string
	imageDirectory map[string]string
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "How to reach the API server.")
	flags.StringVar(&o.name, "name", "", "The name of the node; the host name by default.")
	flags.StringVar(&o.root, "root", "", "The directory for the state of pods. What is in its pods directory is removed at the start.")
	flags.StringArrayVar(&o.images, "image", nil, "NAME=DIR: containers of image NAME find DIR as /image, and DIR/bin first in their PATH. May be repeated.")
	flags.StringVar(&o.podCIDR, "pod-cidr", "127.64.0.0/16", "The range that pods get their addresses from. All of it must be local to this machine.")
	flags.StringVar(&o.listen, "listen", "", "The address of the kubelet API, which kubectl logs and exec need; port 0 takes a free one. None by default.")
	flags.StringVar(&o.clientCAFile, "client-ca-file", "", "Who may use the kubelet API: holders of a certificate signed by one of these, or of one of these. Required with --listen.")
	flags.StringVar(&o.tlsCertFile, "tls-cert-file", "", "The certificate of the kubelet API; a self-signed one by default.")
	flags.StringVar(&o.tlsKeyFile, "tls-private-key-file", "", "The key of --tls-cert-file.")
	flags.DurationVar(&o.shutdownGrace, "shutdown-grace-period", 5*time.Second, "What pods get at most to end in when the node does.")
	flags.DurationVar(&o.restartPeriod, "max-container-restart-period", 5*time.Minute, "The bound of the back-off between restarts of a container.")
	flags.IntVar(&o.maxPods, "max-pods", 250, "How many pods the scheduler may place here.")
	flags.StringToStringVar(&o.nodeLabels, "node-labels", nil, "Further labels of the node.")
}

func (o *options) complete() error {
	if o.kubeconfig == "" || o.root == "" {
		return errors.New("--kubeconfig and --root are required")
	}
	if o.listen != "" && o.clientCAFile == "" {
		return errors.New("--listen needs --client-ca-file: the kubelet API runs commands as the users of pods")
	}
	if (o.tlsCertFile == "") != (o.tlsKeyFile == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file go together")
	}
	if o.name == "" {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		o.name = strings.ToLower(name)
	}
	o.imageDirectory = map[string]string{}
	for _, image := range o.images {
		name, dir, ok := strings.Cut(image, "=")
		if !ok || name == "" || dir == "" {
			return fmt.Errorf("--image %s: want NAME=DIR", image)
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		o.imageDirectory[name] = dir
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	o.root = root
	return nil
}

// hostIP is where the API server finds the kubelet API.
func (o *options) hostIP() string {
	host, _, err := net.SplitHostPort(o.listen)
	if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsUnspecified() {
		return ip.String()
	}
	return "127.0.0.1"
}
