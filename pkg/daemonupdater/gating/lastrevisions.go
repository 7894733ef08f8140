package gating

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// LastRevisions is with which revision of a DaemonSet each node of a group was last ready. It is lost with the process:
// what a node had is then known from the pods that it has.
type LastRevisions map[string]*had

// had is what one Node object had, by DaemonSet: another Node of the same name had nothing.
type had struct {
	node   types.UID
	hashes map[types.UID]lastHash
}

// lastHash is the hash of the last revision, and whether a pod of it was ready.
type lastHash struct {
	hash  string
	ready bool
}

// Note records the revision of the pod that a node has of a DaemonSet: of one that is not ready only if none
// was, so that a node gets no revision back that never worked on it. Pods that are not bound never ran, and one that is
// older than the Node ran on another one of its name.
func (m LastRevisions) Note(ds *appsv1.DaemonSet, node *corev1.Node, pods []*corev1.Pod) {
	pod := daemonset.PodOf(pods)
	if pod == nil || pod.Spec.NodeName == "" || pod.CreationTimestamp.Before(&node.CreationTimestamp) {
		return
	}
	if m[node.Name] == nil || m[node.Name].node != node.UID {
		m[node.Name] = &had{node.UID, map[types.UID]lastHash{}}
	}
	hashes := m[node.Name].hashes
	if ready := daemonset.IsReady(pod); ready || !hashes[ds.UID].ready {
		hashes[ds.UID] = lastHash{daemonset.RevisionHash(pod), ready}
	}
}

// Of returns the hash of the revision with which a node was last ready of a DaemonSet, "" if that is not known.
func (m LastRevisions) Of(ds *appsv1.DaemonSet, node *corev1.Node) string {
	if h := m[node.Name]; h != nil && h.node == node.UID {
		return h.hashes[ds.UID].hash
	}
	return ""
}

// OfNode is Of, for the Node that last had the name.
func (m LastRevisions) OfNode(ds *appsv1.DaemonSet, node string) string {
	if h := m[node]; h != nil {
		return h.hashes[ds.UID].hash
	}
	return ""
}

// Common returns the hash of the revision of a DaemonSet that most nodes have without a given one, "" if no
// node has another one.
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
