package operation

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
)

// Facts are what a decision looks at. Everything may be as it was a while ago,
// except where it says live: what is done about it has preconditions.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Wanted is spec.operation; nil: none.
	Wanted *topsv1.NodeOperation
	// Record is what is stored of the operation.
	Record Record
	// Override is the annotation AnnotationTaskOverride of the NodeUpgrade.
	Override string
	// Node is the Node object.
	Node Node
	// Members are the targets of the wanted operation, all other components that use
	// the device of this node, whoever deploys them, and those whose pods the record
	// names, wanted or not; in any order.
	Members []Member
	// Drained says whether the node is empty, read live.
	Drained Drained
	// Host is status.host; nil: the agent has never reported.
	Host *topsv1.HostReport
}

// Record is the part of the status that the operator keeps of operations.
type Record struct {
	// Operation is status.operation.
	Operation *topsv1.OperationStatus
	// History is status.history.
	History []topsv1.OperationRecord
}

// Over reports whether nothing of an operation is left: there is none, or it has ended
// and does not hold the node.
func Over(op *topsv1.OperationStatus) bool { return op == nil || op.Phase.Final() && !op.Held }

// Node is what is seen of the Node object.
type Node struct {
	// Name and UID; no UID: there is no such node.
	Name string
	UID  types.UID
	// Cordon are the facts about cordons, read live.
	Cordon cordon.NodeFacts
	// Taint is the value of TaintDriverUpgrade, "" without one.
	Taint string
	// Ready is the Ready condition, and Since when it last changed.
	Ready bool
	Since time.Time
	// Allocatable are the resources of the accelerator.
	Allocatable map[string]int64
	// OtherUpgrader names who else works on the node, "" nobody.
	OtherUpgrader string
}

// Member is one DaemonSet and its pod on the node.
type Member struct {
	// Component is its key, and DaemonSet its namespace/name.
	Component, DaemonSet string
	// UID of the DaemonSet: a target is the member of its component and UID.
	UID types.UID
	// Uncontrolled: its updateStrategy is not OnDelete, so its pods are not ours to
	// delete (invariant S9).
	Uncontrolled bool
	// Newest is the hash of the newest revision; "" when it is not known yet.
	Newest string
	// Pod on the node; nil: none. While one terminates it is that one.
	Pod *Pod
}

// Pod is a pod of a member.
type Pod struct {
	topsv1.NamedPod
	// Revision is its controller-revision-hash.
	Revision string
	// Created is its creation.
	Created time.Time
	// Available as the DaemonSet wants it, and Since the last change of readiness
	// or the last restart of a container, whichever is later.
	Available bool
	Since     time.Time
	// Terminating has a deletion timestamp. CrashLooping restarts again and again.
	Terminating, CrashLooping bool
	// LastWords are what a container that crash-loops left, "" when that is not known.
	LastWords string
}

// Drained is what a look at the pods of the node says, read live, by the policy of
// the operation; of all pods when the record says so (DrainAll).
type Drained struct {
	// Empty: the node is Ready and nothing is left to evict.
	Empty bool
	// Stuck: somebody has to act before it gets empty.
	Stuck bool
	// Message says what holds the drain.
	Message string
}

// Decision is what comes next.
type Decision struct {
	// Record to be stored first, with the resourceVersion that was read; equal to
	// that of the facts when nothing is to be stored. When it cannot be stored, no
	// effect is carried out.
	Record Record
	// Effects to be carried out then, in this order.
	Effects []Effect
	// After is when to look again at the latest; zero: when something changes.
	After time.Duration
}

// EffectKind is what an effect does.
type EffectKind string

// Kinds of effects. Each fails when the world is not as its preconditions say.
const (
	// Cordon and Uncordon carry out Change at NodeVersion.
	Cordon   EffectKind = "Cordon"
	Uncordon EffectKind = "Uncordon"
	// CloseDevice sets the taint TaintDriverUpgrade to the operation at NodeVersion,
	// OpenDevice removes it when it has that value.
	CloseDevice EffectKind = "CloseDevice"
	OpenDevice  EffectKind = "OpenDevice"
	// Evict makes one pass of a drain; All: of all pods.
	Evict EffectKind = "Evict"
	// DeletePod deletes Pod by UID and resourceVersion.
	DeletePod EffectKind = "DeletePod"
	// FencePod writes to Pod at its resourceVersion, so that a deletion that was
	// decided before fails.
	FencePod EffectKind = "FencePod"
)

// Effect is one change of the world.
type Effect struct {
	Kind EffectKind
	// Operation it belongs to.
	Operation string
	// NodeUID and NodeVersion are the preconditions on the Node object.
	NodeUID     types.UID
	NodeVersion string
	// Change of the cordon.
	Change cordon.NodeChange
	// Pod and its preconditions.
	Pod topsv1.NamedPod
	// All evicts every pod, not only those that use the accelerator.
	All bool
}
