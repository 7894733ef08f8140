package harness

import "k8s.io/apimachinery/pkg/types"

// PodsByNode are the pods on each node that an observer counts.
type PodsByNode map[string]map[types.UID]bool

// Set records whether a pod is on a node.
func (p PodsByNode) Set(node string, uid types.UID, is bool) {
	if p[node] == nil {
		p[node] = map[types.UID]bool{}
	}
	if delete(p[node], uid); is {
		p[node][uid] = true
	}
}

// Occupied returns the number of nodes with a pod.
func (p PodsByNode) Occupied() int {
	n := 0
	for _, pods := range p {
		if len(pods) > 0 {
			n++
		}
	}
	return n
}
