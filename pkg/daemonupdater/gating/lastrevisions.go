package gating

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// LastRevisions has, per node of a group and DaemonSet, the revision with which the node was last ready. A new process
// learns it from the pods that the nodes have.
type LastRevisions map[string]*nodeRevisions

// nodeRevisions are the revisions of one Node object, by DaemonSet: another Node of the same name starts without any.
type nodeRevisions struct {
	node   types.UID
	hashes map[types.UID]lastHash
}

// lastHash is the hash of the last revision, and whether a pod of it was ready.
type lastHash struct {
	hash  string
	ready bool
}

// Note records the revision of a DaemonSet's pod on a node. A pod that is not ready counts only if none was ready before,
// so that a node never gets back a revision that did not work on it.
func (m LastRevisions) Note(ds *appsv1.DaemonSet, node *corev1.Node, pods []*corev1.Pod) {
	pod := lastPod(node, pods)
	if pod == nil {
		return
	}
	if m[node.Name] == nil || m[node.Name].node != node.UID {
		m[node.Name] = &nodeRevisions{node.UID, map[types.UID]lastHash{}}
	}
	hashes := m[node.Name].hashes
	if ready := daemonset.IsReady(pod); ready || !hashes[ds.UID].ready {
		hashes[ds.UID] = lastHash{daemonset.RevisionHash(pod), ready}
	}
}

// lastPod returns the pod that shows a node's revision, among those that ran there: the one that counts, or the newest one if
// all have ended and only finalizers keep them; nil if none ran there. Unbound pods never ran, also not one that a finalizer
// keeps beside the pod that was created in its place. A pod older than the Node ran on a former Node of that name.
func lastPod(node *corev1.Node, pods []*corev1.Pod) *corev1.Pod {
	ran := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == "" || pod.CreationTimestamp.Before(&node.CreationTimestamp)
	})
	counts := daemonset.PodOf(ran)
	if counts == nil || !daemonset.HasLeft(counts) {
		return counts
	}
	return slices.MaxFunc(ran, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
}

// Of returns the hash of the DaemonSet's revision with which a node was last ready, "" if unknown.
func (m LastRevisions) Of(ds *appsv1.DaemonSet, node *corev1.Node) string {
	if h := m[node.Name]; h != nil && h.node == node.UID {
		return h.hashes[ds.UID].hash
	}
	return ""
}

// OfNode is Of for the last Node with a name.
func (m LastRevisions) OfNode(ds *appsv1.DaemonSet, node string) string {
	if h := m[node]; h != nil {
		return h.hashes[ds.UID].hash
	}
	return ""
}

// Common returns the hash of the revision of a DaemonSet that most nodes have, except a given one; "" if no node has
// another one.
func (m LastRevisions) Common(ds *appsv1.DaemonSet, without string) (common string) {
	nodes := map[string]int{}
	for _, h := range m {
		if hash := h.hashes[ds.UID].hash; hash != "" && hash != without {
			nodes[hash]++
		}
	}
	for hash, n := range nodes {
		if common == "" || n > nodes[common] || n == nodes[common] && hash < common {
			common = hash
		}
	}
	return common
}

// Forget drops what is known of a node that is gone.
func (m LastRevisions) Forget(node string) { delete(m, node) }
