// beckon-cluster is a Kubernetes control plane and a node in one binary: what
// the tests and a local run of Beckon stand on where no cluster exists.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"beckon.dev/beckon/tests/cluster/internal/node"
)

func main() {
	name := filepath.Base(os.Args[0])
	if run, ok := commands[name]; ok {
		os.Exit(run(os.Args))
	}
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			os.Exit(run(os.Args[1:]))
		}
	}
	names := make([]string, 0, len(commands))
	for n := range commands {
		names = append(names, n)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: %s COMMAND [flags], COMMAND one of %v\n", name, names)
	os.Exit(2)
}

// commands take an argument list as os.Args has it: the name first.
var commands = map[string]func(args []string) int{
	"etcd": func(args []string) int {
		etcdmain.Main(args)
		return 0
	},
	"kube-apiserver":          cobraCommand(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraCommand(controllermanager.NewControllerManagerCommand),
	"kube-scheduler": cobraCommand(func() *cobra.Command {
		return scheduler.NewSchedulerCommand()
	}),
	"kubectl": kubectl,
	"node":    cobraCommand(node.NewCommand),
}

func cobraCommand(build func() *cobra.Command) func([]string) int {
	return func(args []string) int {
		// The commands look at os.Args for their own name and flags.
		os.Args = args
		return cli.Run(build())
	}
}

func kubectl(args []string) int {
	os.Args = args
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
