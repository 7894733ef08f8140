package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DaemonRollout reports the upgrade of one rollout group: the DaemonSets of one gr,
// or one annotated DaemonSet. The operator creates and writes it;
// its status holds the ledger of nodes in flight, which is written before a
// node is touched.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=daemonrollouts,singular=daemonrollout,shortName=dro,scope=Namespaced
// +kubebuilder:printcolumn:name="STRATEGY",type=string,JSONPath=`.status.strategy`
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updated`
// +kubebuilder:printcolumn:name="IN-FLIGHT",type=integer,JSONPath=`.status.inFlightNodes`
// +kubebuilder:printcolumn:name="PENDING",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="HELD",type=integer,JSONPath=`.status.heldNodes`
// +kubebuilder:printcolumn:name="SKIPPED",type=integer,JSONPath=`.status.skippedNodes`
// +kubebuilder:printcolumn:name="FAILED",type=integer,JSONPath=`.status.failedNodes`
// +kubebuilder:printcolumn:name="PINNED",type=integer,priority=1,JSONPath=`.status.pinnedNodes`
// +kubebuilder:printcolumn:name="ETA",type=integer,priority=1,JSONPath=`.status.etaSeconds`
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`
type DaemonRollout struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the rollout group.
	Spec DaemonRolloutSpec `json:"spec"`
	// status is written by the operator.
	// +optional
	Status DaemonRolloutStatus `json:"status,omitempty"`
}

// BelongsTo reports whether the rollout belongs to this GcuResource, or to this DaemonSet in the rollout's
// namespace. A GcuResource and a DaemonSet in the operator's namespace may have the same name, and then their
// rollouts have too.
func (r *DaemonRollout) BelongsTo(kind, name string) bool {
	return r.Spec.TargetRef == TargetRef{Kind: kind, Name: name}
}

// DaemonRolloutList is a list of DaemonRollout.
//
// +kubebuilder:object:root=true
type DaemonRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the DaemonRollouts.
	Items []DaemonRollout `json:"items"`
}

// DaemonRolloutSpec identifies the rollout group.
type DaemonRolloutSpec struct {
	// targetRef is the GcuResource or the DaemonSet that is rolled out.
	TargetRef TargetRef `json:"targetRef"`
}

// TargetRef points to the owner of a rollout group.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef cannot be changed"
type TargetRef struct {
	// kind is GcuResource or DaemonSet.
	// +kubebuilder:validation:Enum=GcuResource;DaemonSet
	Kind string `json:"kind"`
	// name of the GcuResource, or of the DaemonSet in the rollout's namespace.
	Name string `json:"name"`
}

// Condition types of a DaemonRollout.
const (
	// RolloutAccepted is True when the settings of the group are valid.
	// False stops new work; the message says what to change.
	RolloutAccepted = "Accepted"
	// RolloutProgressing is True while nodes are being upgraded or may be
	// started; its reason is the state in one word.
	RolloutProgressing = "Progressing"
	// RolloutHalted is True when too many nodes failed: no new node starts.
	RolloutHalted = "Halted"
	// RolloutGated is True when the gate works: a pod that is deleted or evicted outside the rollout comes back
	// at a new revision only once its node may have it. False when --gate is set and the gate is not available;
	// absent without --gate.
	RolloutGated = "Gated"
	// RolloutPaused is True when the group is annotated as paused.
	RolloutPaused = "Paused"
	// RolloutComplete is True when every reachable node is at the target.
	RolloutComplete = "Complete"
)

// DaemonRolloutStatus is the observed state of the rollout.
type DaemonRolloutStatus struct {
	// strategy is AdvancedRollingUpdate or OTA; RestartsOnly for a gr without one, while container
	// runtimes have to be restarted for its toolkit; empty when the settings are not accepted.
	// +optional
	Strategy string `json:"strategy,omitempty"`
	// maxUnavailable is the number of nodes that may be unavailable at once. It is lower than what
	// the settings allow if inFlight, queued and failed would not fit into one object: with short
	// names of nodes about 1700, with names of 253 characters about 1100, fewer with many
	// DaemonSets or failed nodes.
	// +optional
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
	// revision identifies the newest templates of the group.
	// +optional
	Revision string `json:"revision,omitempty"`
	// targets are the newest ControllerRevision hashes, one per DaemonSet.
	// +optional
	// +listType=atomic
	Targets []RevisionTarget `json:"targets,omitempty"`

	// settled lists, per DaemonSet, the revision of which a pod may start on any node: the target, once every
	// node has had it; an empty hash while a node may still have another one. With the admission policy
	// gcu-operator-gate, a pod of another revision waits at a scheduling gate unless the slot of its node
	// names its DaemonSet. Pods of a DaemonSet that is not listed are not gated.
	// +optional
	// +listType=atomic
	Settled []RevisionTarget `json:"settled,omitempty"`

	// total nodes that should run the group, offline ones included, and nodes that failed and are gone. The
	// numbers of nodes that are updated, in flight, pending, held, skipped, failed and pinned add up to it.
	// +optional
	Total int32 `json:"total"`
	// updated nodes have every pod at the target and available.
	// +optional
	Updated int32 `json:"updated"`
	// inFlightNodes have a slot: they were started and are not finished.
	// +optional
	InFlightNodes int32 `json:"inFlightNodes"`
	// pending nodes wait for room in a budget, or for their own pods.
	// +optional
	Pending int32 `json:"pending"`
	// heldNodes wait for a decision or for a rule of the policy: a wave, an
	// approval, a window, an OTA request, the end of a pause or a halt.
	// +optional
	HeldNodes int32 `json:"heldNodes"`
	// skippedNodes were offline before they were touched.
	// +optional
	SkippedNodes int32 `json:"skippedNodes"`
	// failedNodes did not become available at this revision. One whose Node is deleted counts until that is cleared.
	// +optional
	FailedNodes int32 `json:"failedNodes"`
	// pinnedNodes are available at the revisions that status.pinned keeps them at.
	// +optional
	PinnedNodes int32 `json:"pinnedNodes,omitempty"`
	// notPrepulledNodes are the nodes still to be upgraded whose images are pulled only by the kubelet, when the
	// new pod starts: there is no node agent, it cannot pull them or did not answer in time, or prepull is Never.
	// Under OTA, those requested without a pull.
	// +optional
	NotPrepulledNodes int32 `json:"notPrepulledNodes,omitempty"`
	// unavailable nodes count against maxUnavailable now.
	// +optional
	Unavailable int32 `json:"unavailable"`
	// touched counts the nodes given a slot since the revision became the target.
	// +optional
	Touched int32 `json:"touched"`
	// started counts the nodes that got the revision, those in flight included.
	// +optional
	Started int32 `json:"started,omitempty"`

	// resumed is the last value of the annotation topsops.enflame.com/resume that
	// was acted on.
	// +optional
	Resumed string `json:"resumed,omitempty"`
	// resumedTime is when that was; nodes that went offline earlier do not count as
	// failures of the revision.
	// +optional
	ResumedTime *metav1.Time `json:"resumedTime,omitempty"`
	// lastStartTime is when a node was last started.
	// +optional
	LastStartTime *metav1.Time `json:"lastStartTime,omitempty"`
	// lastProgressTime is when a node was last started or finished, its next pod was
	// chosen for deletion, or its operation ended.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
	// usualSeconds is how long a node usually takes, measured; 0 when none finished yet.
	// +optional
	UsualSeconds int32 `json:"usualSeconds,omitempty"`
	// etaSeconds is how long the started and pending nodes will take at the
	// usual pace; 0 when there are none or the pace is not known.
	// +optional
	ETASeconds int32 `json:"etaSeconds,omitempty"`
	// limitedTo is the limit of the upgrade, from annotation upgrade-only, shortened when it is long. While a plan
	// is in force, plan= with its name, UID and generation comes first. Empty: no limit. status.waves refers to
	// this limit.
	// +optional
	LimitedTo string `json:"limitedTo,omitempty"`
	// waves has the progress of each wave of the policy, in order, by the batches of the plan in
	// force. Nodes that the upgrade leaves out do not delay a wave.
	// +optional
	// +listType=atomic
	Waves []WaveStatus `json:"waves,omitempty"`

	// waiting lists why nodes are pending or held, one entry per reason, the most
	// common one first.
	// +optional
	// +listType=atomic
	Waiting []WaitingNote `json:"waiting,omitempty"`

	// inFlight is the ledger: the nodes that were started, sorted by name.
	// +optional
	// +listType=atomic
	InFlight []NodeSlot `json:"inFlight,omitempty"`
	// queued are the nodes that are started next, as soon as there is room, sorted
	// by name; they are part of the ledger, so that a start needs no write of its own.
	// +optional
	// +listType=atomic
	Queued []NodeSlot `json:"queued,omitempty"`
	// failed lists the nodes that failed at this revision, sorted by name; those
	// after the first 20 have no message. Nodes that went offline after they were
	// upgraded are omitted when there is no room for more.
	// +optional
	// +listType=atomic
	Failed []NodeNote `json:"failed,omitempty"`
	// pinned lists the nodes that were rolled back individually and are kept at an earlier revision of a DaemonSet
	// than the target, sorted by name; at most 100. It is part of the ledger. With the admission
	// policy gcu-operator-gate no pod of another revision starts there. An entry is removed when the target changes, or
	// by kubectl gcu task retry.
	// +optional
	// +listType=atomic
	Pinned []NodePin `json:"pinned,omitempty"`
	// skipped lists at most 20 of the nodes that were offline before they were
	// touched, sorted by name; skippedNodes counts all of them.
	// +optional
	// +listType=atomic
	Skipped []NodeNote `json:"skipped,omitempty"`

	// lastDecisionTime is when the operator last decided about the nodes in flight, to within about half
	// a minute; absent when there are none and no wave soaks. Time without decisions does not count toward
	// deadlines.
	// +optional
	LastDecisionTime *metav1.Time `json:"lastDecisionTime,omitempty"`
	// lastKnownGood is the last revision at which every reachable node was available, without a
	// failure, until probationSeconds of the policy after the last one was upgraded, and, if it replaces another
	// revision here, until progressDeadlineSeconds after that; absent until there is one.
	// +optional
	LastKnownGood *KnownGoodRevision `json:"lastKnownGood,omitempty"`
	// rollback is the latest rollback by failure.action Rollback of the policy. The
	// revision that failed stays rejected, and no node is started at it, until the
	// target is another revision than these two, or a person resumes the rollout.
	// +optional
	Rollback *RolloutRollback `json:"rollback,omitempty"`
	// record is what happened in this and earlier upgrades, the newest last: at most 40 entries of
	// less than 40 KiB in all. The oldest entries about waves, holds and failed nodes are dropped first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=40
	Record []RolloutRecordEntry `json:"record,omitempty"`

	// conditions are Accepted, Progressing, Halted, Paused and Complete; Gated with --gate; and at most one of
	// Reconciling and Stalled, only while it is True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WaveStatus is the progress of a wave.
type WaveStatus struct {
	// name of the wave; "rest" for the nodes in no wave of the policy. PLAN/BATCH under a plan,
	// WAVE/PLAN/BATCH if the policy has waves as well.
	Name string `json:"name"`
	// total nodes of the wave.
	Total int32 `json:"total"`
	// updated nodes of the wave.
	Updated int32 `json:"updated"`
	// completedTime is when every reachable node of the wave was first updated.
	// +optional
	CompletedTime *metav1.Time `json:"completedTime,omitempty"`
	// soakedTime is when a node of a later wave was first started in its turn after the soak of the wave. Until then the
	// nodes of the wave have to be available.
	// +optional
	SoakedTime *metav1.Time `json:"soakedTime,omitempty"`
}

// KnownGoodRevision is a revision of the group that worked.
type KnownGoodRevision struct {
	// revision of the group.
	Revision string `json:"revision"`
	// targets are the ControllerRevision hashes, one per DaemonSet.
	// +optional
	// +listType=atomic
	Targets []RevisionTarget `json:"targets,omitempty"`
	// gcuResourceRevision names the revision of the GcuResource's spec that the
	// DaemonSets were rendered from; empty for a DaemonSet of no GcuResource.
	// +optional
	GcuResourceRevision string `json:"gcuResourceRevision,omitempty"`
	// since is when it was first known to be good.
	Since metav1.Time `json:"since"`
}

// RolloutRollback is one rollback, stored before anything is changed back.
type RolloutRollback struct {
	// from is the revision of the group that failed.
	From string `json:"from"`
	// to is the revision of the group that was the last known good one.
	To string `json:"to"`
	// gcuResourceRevision names the revision of the GcuResource's spec that is deployed
	// in place of rejectedRevision; empty for a DaemonSet of no GcuResource.
	// +optional
	GcuResourceRevision string `json:"gcuResourceRevision,omitempty"`
	// rejectedRevision names the revision of the GcuResource's spec that failed; empty
	// for a DaemonSet of no GcuResource.
	// +optional
	RejectedRevision string `json:"rejectedRevision,omitempty"`
	// message says why.
	// +optional
	Message string `json:"message,omitempty"`
	// time of the decision.
	Time metav1.Time `json:"time"`
	// restoredTime is when revision to first became the target again.
	// +optional
	RestoredTime *metav1.Time `json:"restoredTime,omitempty"`
	// completedTime is when every reachable node was first back at revision to.
	// +optional
	CompletedTime *metav1.Time `json:"completedTime,omitempty"`
}

// RollingBack reports whether a rollback from the current revision is in progress.
func (s *DaemonRolloutStatus) RollingBack() bool {
	return s.Rollback != nil && s.Rollback.From == s.Revision && s.Rollback.CompletedTime == nil
}

// InPlaceOf returns the revision that is deployed in place of a revision of a GcuResource's spec;
// "" if that one is not rejected.
func (s *DaemonRolloutStatus) InPlaceOf(revision string) string {
	if s.Rollback == nil || revision == "" || s.Rollback.RejectedRevision != revision {
		return ""
	}
	return s.Rollback.GcuResourceRevision
}

// NodeSlot is one entry of the ledger.
type NodeSlot struct {
	// node that has the slot.
	Node string `json:"node"`
	// uid of the Node object when the slot was given.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// since is when the node was started or queued, or when the target last changed
	// while it had the slot.
	Since metav1.Time `json:"since"`
	// progressTime is the start of the progress deadline: when the node was started or its next pod was
	// chosen for deletion, moved on by any time in which the operator did not decide.
	// +optional
	ProgressTime *metav1.Time `json:"progressTime,omitempty"`
	// idleSeconds is how long, since the node was started, the operator did not decide or the node was
	// available.
	// +optional
	IdleSeconds int64 `json:"idleSeconds,omitempty"`
	// newestPodTime is the latest creationTimestamp of a pod that the node had at since: pods
	// created later were created under the slot.
	// +optional
	NewestPodTime *metav1.Time `json:"newestPodTime,omitempty"`
	// turn orders slots: a healthy node is made unavailable only while fewer than maxUnavailable
	// slots have earlier turns.
	// +optional
	Turn int64 `json:"turn,omitempty"`
	// step is the reason of a node in flight, such as Replacing, PodTerminating, AwaitingPod, AwaitingAvailable,
	// Operating, FenceDenied, OperationDenied or NodeLost; empty while it is queued.
	// +optional
	Step string `json:"step,omitempty"`
	// revision of the group the node is being brought to; empty while the operation ends that the group itself aborted.
	Revision string `json:"revision"`
	// podUID is the pod that may be deleted: the intent, stored before the effect.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// podVersion is the resourceVersion of that pod, the precondition of the deletion.
	// +optional
	PodVersion string `json:"podVersion,omitempty"`
	// operation of the node's NodeUpgrade that does the work under this slot; empty
	// when pods are just deleted. The slot is kept until the operation has ended.
	// +optional
	Operation string `json:"operation,omitempty"`
	// daemonSets whose pods were deleted under this slot, as namespace/name, the owner of podUID
	// last. The slot is kept until all of them are available again. With an operation, the DaemonSets whose
	// pods it replaces.
	// +optional
	// +listType=atomic
	DaemonSets []string `json:"daemonSets,omitempty"`
}

// WaitingNote explains why some nodes are not being upgraded.
type WaitingNote struct {
	// reason in one word.
	Reason string `json:"reason"`
	// nodes is how many wait for this reason.
	Nodes int32 `json:"nodes"`
	// message is the explanation for one of the nodes.
	// +optional
	Message string `json:"message,omitempty"`
}
