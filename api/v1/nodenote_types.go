package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodePin keeps the pods of one DaemonSet on one node at an earlier revision.
type NodePin struct {
	// node that is kept.
	Node string `json:"node"`
	// uid of the Node object when it was pinned.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// machineID of the node when it was pinned: the pin applies to the machine, also under another Node object of
	// the same name.
	// +optional
	MachineID string `json:"machineID,omitempty"`
	// daemonSet is namespace/name.
	DaemonSet string `json:"daemonSet"`
	// hash is the controller-revision-hash that the node is kept at.
	Hash string `json:"hash"`
	// from is the controller-revision-hash of the target that the node is kept from: the pin ends with another target.
	From string `json:"from"`
	// reason is Undone if a person asked for it, or why the node failed.
	Reason string `json:"reason"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// since is when it was pinned.
	Since metav1.Time `json:"since"`
	// requestedTime is the time of the latest upgrade request of the node that was known when it was pinned, by the
	// clock of the node: under OTA, a later request for from ends the pin.
	// +optional
	RequestedTime *metav1.Time `json:"requestedTime,omitempty"`
	// failed is true while the node counts toward a halt of the rollout: it failed before it was
	// pinned, and no one has resumed the rollout since.
	// +optional
	Failed bool `json:"failed,omitempty"`
}

// NodeNote explains why a node is skipped or failed.
type NodeNote struct {
	// node it is about.
	Node string `json:"node"`
	// uid of the Node object, if one existed.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// reason in one word.
	Reason string `json:"reason"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// since is when it entered this state.
	Since metav1.Time `json:"since"`
	// requestedTime is the time of the latest request of a failed node that was known when it failed, by the
	// clock of the node: only a later request starts it again.
	// +optional
	RequestedTime *metav1.Time `json:"requestedTime,omitempty"`
	// machineID of a node that failed: the failure applies to the machine, also under another Node
	// object of the same name.
	// +optional
	MachineID string `json:"machineID,omitempty"`
	// targets are the revisions that a failed node may have failed for; it counts as failed until
	// one of them is replaced by another revision.
	// +optional
	// +listType=atomic
	Targets []RevisionTarget `json:"targets,omitempty"`
}

// RevisionTarget is the newest revision of one DaemonSet.
type RevisionTarget struct {
	// daemonSet is namespace/name.
	DaemonSet string `json:"daemonSet"`
	// hash is the controller-revision-hash label of its newest ControllerRevision.
	Hash string `json:"hash"`
}
