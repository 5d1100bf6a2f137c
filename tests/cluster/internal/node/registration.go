package node

import (
	"context"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
)

// register keeps the node's object and its lease until the context ends.
func register(ctx context.Context, client kubernetes.Interface, node *v1.Node) error {
	leases := client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	controller, err := vknode.NewNodeController(
		vknode.NaiveNodeProvider{}, node, client.CoreV1().Nodes(),
		vknode.WithNodeEnableLeaseV1(leases, vknode.DefaultLeaseDuration),
	)
	if err != nil {
		return err
	}
	return controller.Run(ctx)
}

// cpuOvercommit is how many times each CPU may be requested.
const cpuOvercommit = 16

func nodeObject(o *options, port int32) *v1.Node {
	labels := map[string]string{
		v1.LabelHostname:   o.name,
		v1.LabelOSStable:   runtime.GOOS,
		v1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, o.nodeLabels)
	capacity := v1.ResourceList{
		// Processes share the machine's CPUs, and nothing is reserved: a small machine takes many idle browsers too.
		v1.ResourceCPU:              *resource.NewQuantity(int64(runtime.NumCPU())*cpuOvercommit, resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(memory(), resource.BinarySI),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		v1.ResourcePods:             *resource.NewQuantity(int64(o.maxPods), resource.DecimalSI),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: o.name, Labels: labels},
		Status: v1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Conditions:  conditions(),
			Addresses: []v1.NodeAddress{
				{Type: v1.NodeInternalIP, Address: o.hostIP()},
				{Type: v1.NodeHostName, Address: o.name},
			},
			DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: port}},
			NodeInfo: v1.NodeSystemInfo{
				KubeletVersion:          version.Get().GitVersion,
				ContainerRuntimeVersion: "process://1",
				OperatingSystem:         runtime.GOOS,
				Architecture:            runtime.GOARCH,
				OSImage:                 "the host's",
				KernelVersion:           kernel(),
			},
		},
	}
}

func conditions() []v1.NodeCondition {
	now := metav1.Now()
	condition := func(kind v1.NodeConditionType, status v1.ConditionStatus, reason, message string) v1.NodeCondition {
		return v1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []v1.NodeCondition{
		condition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory", "the node does not look at memory"),
		condition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure", "the node does not look at disks"),
		condition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID", "the node does not look at PIDs"),
		condition(v1.NodeReady, v1.ConditionTrue, "KubeletReady", "the node runs containers as processes"),
	}
}

// memory is all of the machine's, in bytes.
func memory() int64 {
	data, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib * 1024
		}
	}
	return 1 << 30
}

func kernel() string {
	data, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(data))
}
