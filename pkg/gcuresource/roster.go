package gcuresource

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// roster is what the components of a gr have in common: the nodes.
type roster struct {
	// list has all nodes, sorted by name; ready those that are, by the same index.
	list  []*corev1.Node
	ready []bool
	// index finds a node by its name.
	index map[string]int
}

func newRoster(nodes []*corev1.Node) *roster {
	r := &roster{list: nodes, ready: make([]bool, len(nodes)), index: make(map[string]int, len(nodes))}
	for i, node := range nodes {
		r.ready[i], _ = daemonset.NodeReady(node)
		r.index[node.Name] = i
	}
	return r
}

// sort returns the pods of a DaemonSet by the index of the node they belong to.
// Those that belong to no node of the roster are left out.
func (r *roster) sort(ds *appsv1.DaemonSet, pods []*corev1.Pod) [][]*corev1.Pod {
	const nowhere = -1
	at, many := make([]int, len(pods)), make([]int, len(r.list))
	for i, pod := range pods {
		at[i] = nowhere
		if owner := daemonset.Owner(pod); owner == nil || owner.UID != ds.UID {
			continue
		}
		if node, known := r.index[daemonset.NodeName(pod)]; known {
			at[i] = node
			many[node]++
		}
	}
	// One array holds all lists: a fleet has as many as it has nodes.
	byNode, rest := make([][]*corev1.Pod, len(r.list)), make([]*corev1.Pod, len(pods))
	for node, n := range many {
		byNode[node], rest = rest[:0:n], rest[n:]
	}
	for i, node := range at {
		if node != nowhere {
			byNode[node] = append(byNode[node], pods[i])
		}
	}
	return byNode
}
