package operation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
)

// Facts is the input of a decision. Everything may be stale, except where it says live;
// effects have preconditions for that reason.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Wanted is spec.operation; nil when there is none.
	Wanted *topsv1.NodeOperation
	// Record is the stored part of the status.
	Record Record
	// Override is the annotation AnnotationTaskOverride of the NodeUpgrade.
	Override string
	// Node is the Node object.
	Node Node
	// Members are, in any order: the targets of the wanted operation, all other components
	// that use the device of this node, whichever gr deploys them, and the owners of all pods
	// named in the record.
	Members []Member
	// Drained reports whether the node is empty, read live.
	Drained Drained
	// CardUsers are the pods on the node that use its cards, except those of the operator's own
	// components, read live if NeedsCardUsers.
	CardUsers []string
	// StayingPods are the pods on the node in which a process has a device open by the last report, and
	// which its drain leaves there, as namespace/name by UID, "" for a pod that the API server does not
	// have; not those of the operator's own components. Read live if NeedsStayingPods.
	StayingPods map[string]string
	// Host is status.host; nil: the agent has never reported.
	Host *topsv1.HostReport
	// HostSince is when this manager first saw the report: its time is by the node's clock.
	HostSince time.Time
	// Denied are the pods whose deletion was denied, and the Node if a change of it was, by UID.
	Denied map[types.UID]Denial
	// WorkedSince is since when passes over the node were made with no break longer than
	// LongestBreak: deadlines do not run while no manager works. Zero for always.
	WorkedSince time.Time
}

// Denial is a deletion, or a fence, of a pod that was denied, or a change of the Node object.
type Denial struct {
	// Retry is the time of the next attempt.
	Retry   time.Time
	Message string
	// OfFence: the fence was denied.
	OfFence bool
}

// Record is the part of the status that the operator keeps of operations.
type Record struct {
	// Operation is status.operation.
	Operation *topsv1.OperationStatus
	// History is status.history.
	History []topsv1.OperationRecord
}

// Over reports whether no operation is left: there is none, or it has ended and does not keep
// the node cordoned.
func Over(op *topsv1.OperationStatus) bool { return op == nil || op.Phase.Final() && !op.Held }

// Node is the observed state of the Node object.
type Node struct {
	// Name and UID; without a UID the Node does not exist.
	Name string
	UID  types.UID
	// Cordon has the facts about cordons, read live.
	Cordon cordon.NodeFacts
	// Taint is the value of TaintDriverUpgrade, "" without it.
	Taint string
	// Ready is the Ready condition; Since is its last transition, by the clock of Facts.Now.
	Ready bool
	Since time.Time
	// Allocatable are the resources of the accelerator.
	Allocatable map[string]int64
	// OtherUpgrader names another upgrader that works on the node, "" when there is none.
	OtherUpgrader string
}

// Member is one DaemonSet and its pod on the node.
type Member struct {
	// Component is its key, and DaemonSet its namespace/name.
	Component, DaemonSet string
	// Group is the gr that controls the DaemonSet.
	Group string
	// UID of the DaemonSet. A target matches the member with its component and UID.
	UID types.UID
	// Uncontrolled: its updateStrategy is not OnDelete, so the operator must not delete its
	// pods (invariant S9).
	Uncontrolled bool
	// Newest is the hash of the newest revision; "" when it is not known yet, and for a component that is
	// neither a target nor a device plugin.
	Newest string
	// Leaving: its pods leave the node (daemonset.IsLeaving). An operation that replaces a component
	// under a new name has two targets for it, one of which leaves.
	Leaving bool
	// Shares are how many the device plugin makes of each card in its newest revision, 0 if that is not known.
	Shares int64
	// NoSuccessor says why no pod is created on the node (daemonset.ShouldRun), "" if one is.
	NoSuccessor string
	// Pod on the node; nil when there is none. A terminating pod counts.
	Pod *Pod
}

// Pod is a pod of a member.
type Pod struct {
	topsv1.NamedPod
	// Revision is its controller-revision-hash.
	Revision string
	// Created is its creationTimestamp.
	Created time.Time
	// Started is when its kubelet began to start it, by the clock of the node; zero before.
	Started time.Time
	// Available honors minReadySeconds. Since is the last change of readiness or the last
	// start of a container, whichever is later, by the clock of Facts.Now.
	Available bool
	Since     time.Time
	// Placeholder: nothing runs in it, nor ever will (daemonset.IsPlaceholder). It is available.
	Placeholder bool
	// Gated: it waits at the gate of config/gate.
	Gated bool
	// Terminating: it has a deletion timestamp. CrashLooping: a container restarts
	// repeatedly. Restarted: one has restarted at any time.
	Terminating, CrashLooping, Restarted bool
	// TerminationMessage are the last output of a crash-looping container, "" when not known.
	TerminationMessage string
}

// Drained is the result of a live look at the drain under the operation's policy, see NeedsDrained;
// for all pods when the record says so (DrainAll). For the precheck, it is a dry run of all evictions.
type Drained struct {
	// Empty: the node is Ready and nothing is left to evict.
	Empty bool
	// Stuck: the drain cannot finish without action by a person.
	Stuck bool
	// Ending: all that is left are pods that terminate, and can be expected to go.
	Ending bool
	// Message describes what blocks the drain.
	Message string
}

// Decision is the next step.
type Decision struct {
	// Record to store first, at the resourceVersion that was read; equal to that of the facts
	// when nothing changes. If storing fails, no effect is carried out.
	Record Record
	// Effects to carry out then, in this order.
	Effects []Effect
	// After is the latest time until the next reconcile; zero: only when something changes.
	After time.Duration
}

// EffectKind is the kind of an effect.
type EffectKind string

// Kinds of effects. Each fails when its preconditions do not hold.
const (
	// Cordon and Uncordon apply Change at NodeVersion.
	Cordon   EffectKind = "Cordon"
	Uncordon EffectKind = "Uncordon"
	// TaintDevice sets the taint TaintDriverUpgrade to the operation at NodeVersion;
	// UntaintDevice removes it if it has that value.
	TaintDevice   EffectKind = "TaintDevice"
	UntaintDevice EffectKind = "UntaintDevice"
	// Evict makes one pass of a drain; with All, of all pods.
	Evict EffectKind = "Evict"
	// DeletePod deletes Pod by UID and resourceVersion.
	DeletePod EffectKind = "DeletePod"
	// FencePod writes to Pod at its resourceVersion, so that a deletion decided earlier
	// fails.
	FencePod EffectKind = "FencePod"
)

// Effect is one change to the cluster.
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
	// All: evict every pod, not only those that use the accelerator.
	All bool
}

// isEvidence reports whether an operation shows what is on the node.
func isEvidence(r topsv1.OperationRecord) bool { return r.Touched || r.Phase == topsv1.OperationDone }

// tasksOf returns the names of the tasks of an ended operation.
func tasksOf(r *topsv1.OperationRecord) []string {
	return slices.Concat(r.Result.Done, r.Result.Fail, r.Result.Undo)
}
