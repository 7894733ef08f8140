// Package node creates simulated nodes, takes them offline and brings them back, and
// reports the state of simulated and real nodes.
package node

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
)

const (
	// GCULabel is the label that node feature discovery sets on a node with a GCU: PCI
	// class 1200 (processing accelerators), vendor 1e36 (Enflame).
	GCULabel = "feature.node.kubernetes.io/pci-1200_1e36.present"
	// MaxNodes is the maximum number of simulated nodes; their addresses are in
	// 172.16.0.0/12.
	MaxNodes = 5000
	// MaxZones is the maximum number of zones, one per letter.
	MaxZones = 26
)

// Name returns the name of the i-th node, counted from 1: "node-0001".
func Name(i int) string { return fmt.Sprintf("node-%04d", i) }

// Zone returns the zone of the i-th node, in round robin over "zone-a" and so on, or
// "" without zones.
func Zone(i, zones int) string {
	if zones == 0 {
		return ""
	}
	return "zone-" + string(rune('a'+(i-1)%zones))
}

// GCULabels returns the labels for the GCU and the zone of the i-th node.
func GCULabels(i, zones int) map[string]string {
	labels := map[string]string{GCULabel: "true"}
	if zone := Zone(i, zones); zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	return labels
}

// Spec describes the nodes of a cluster.
type Spec struct {
	// Count is the number of nodes, from 0 to MaxNodes.
	Count int
	// Zones is the number of zones they are spread over, from 0 to MaxZones.
	Zones int
	// KubeletVersion is the kubelet version that the nodes report, such as "v1.36.3".
	KubeletVersion string
}

// Names returns the names of all nodes.
func (s Spec) Names() []string {
	var names []string
	for i := range s.Count {
		names = append(names, Name(i+1))
	}
	return names
}

// Validate returns an error that names the invalid flag of the command.
func (s Spec) Validate() error {
	if s.Count < 0 || s.Count > MaxNodes {
		return fmt.Errorf("--nodes must be from 0 to %d, not %d", MaxNodes, s.Count)
	}
	if s.Zones < 0 || s.Zones > MaxZones {
		return fmt.Errorf("--zones must be from 0 to %d, not %d", MaxZones, s.Zones)
	}
	return nil
}

// build returns the i-th node as its kubelet would register it.
func (s Spec) build(i int) *corev1.Node {
	name := Name(i)
	labels := map[string]string{
		corev1.LabelHostname:   name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
		// A kubelet sets these deprecated labels; without them the node-lifecycle
		// controller would add them.
		"beta.kubernetes.io/os":   "linux",
		"beta.kubernetes.io/arch": runtime.GOARCH,
		kwok.OnlineLabel:          kwok.OnlineValue,
	}
	maps.Copy(labels, GCULabels(i, s.Zones))
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("500Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address(i)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:            runtime.GOARCH,
				OperatingSystem:         "linux",
				OSImage:                 "Simulated Linux",
				KernelVersion:           "6.8.0-simulated",
				ContainerRuntimeVersion: "containerd://2.1.0",
				KubeletVersion:          s.KubeletVersion,
			},
		},
	}
}

// address returns the i-th node's address in 172.16.0.0/12.
func address(i int) string {
	return netip.AddrFrom4([4]byte{172, byte(16 + i>>16), byte(i >> 8), byte(i)}).String()
}
