package state

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// NodeIndex indexes all nodes for the components of a gr.
type NodeIndex struct {
	// list has all nodes, sorted by name; ready says which are Ready, by the same index.
	list  []*corev1.Node
	ready []bool
	// hosts by name.
	hosts map[string]Host
	// index maps a name to its position in list.
	index map[string]int
}

// NewNodeIndex returns the index of nodes that are sorted by name, with their hosts by name.
func NewNodeIndex(nodes []*corev1.Node, hosts map[string]Host) *NodeIndex {
	n := &NodeIndex{list: nodes, hosts: hosts, ready: make([]bool, len(nodes)), index: make(map[string]int, len(nodes))}
	for i, node := range nodes {
		n.ready[i], _ = daemonset.NodeReady(node)
		n.index[node.Name] = i
	}
	return n
}

// host returns the host of a node, by the index of the node; it is not Known without a report.
func (n *NodeIndex) host(i int) *Host {
	h := n.hosts[n.list[i].Name]
	return &h
}

// podsByNode returns the pods of a DaemonSet by the index of their node. Pods on unknown nodes
// are left out.
func (n *NodeIndex) podsByNode(ds *appsv1.DaemonSet, pods []*corev1.Pod) [][]*corev1.Pod {
	const nowhere = -1
	at, many := make([]int, len(pods)), make([]int, len(n.list))
	for i, pod := range pods {
		at[i] = nowhere
		if owner := daemonset.Owner(pod); owner == nil || owner.UID != ds.UID {
			continue
		}
		if node, known := n.index[daemonset.NodeName(pod)]; known {
			at[i] = node
			many[node]++
		}
	}
	// One array backs all lists: a fleet has as many lists as nodes.
	byNode, rest := make([][]*corev1.Pod, len(n.list)), make([]*corev1.Pod, len(pods))
	for node, count := range many {
		byNode[node], rest = rest[:0:count], rest[count:]
	}
	for i, node := range at {
		if node != nowhere {
			byNode[node] = append(byNode[node], pods[i])
		}
	}
	return byNode
}
