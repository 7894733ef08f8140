package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpgradePolicy is how the DaemonSets that name it, with the annotation
// topsops.enflame.com/upgrade-policy, may be upgraded. Edits take effect at the
// next decision.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=upgradepolicies,singular=upgradepolicy,shortName=gup,scope=Cluster
// +kubebuilder:printcolumn:name="MAX-UNAVAILABLE",type=string,JSONPath=`.spec.maxUnavailable`
// +kubebuilder:printcolumn:name="ON-FAILURE",type=string,JSONPath=`.spec.failure.action`
// +kubebuilder:printcolumn:name="ACCEPTED",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type UpgradePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the policy.
	// +optional
	Spec UpgradePolicySpec `json:"spec,omitempty"`
	// status says whether the policy is valid, written by the operator.
	// +optional
	Status UpgradePolicyStatus `json:"status,omitempty"`
}

// UpgradePolicyStatus says whether a policy is valid.
type UpgradePolicyStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions are Accepted and, only while it is True, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UpgradePolicyList is a list of UpgradePolicy.
//
// +kubebuilder:object:root=true
type UpgradePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the UpgradePolicies.
	Items []UpgradePolicy `json:"items"`
}

// UpgradePolicySpec is the policy. Everything is optional; the defaults are
// those of a rollout without a policy.
//
// +kubebuilder:validation:XValidation:rule="!has(self.waves) || self.waves.all(w, self.waves.exists_one(v, v.name == w.name))",message="two waves have the same name"
type UpgradePolicySpec struct {
	// maxUnavailable is the number, or the percentage of all nodes of the
	// rollout, that may be unavailable at once. Default 10%. The annotation
	// topsops.enflame.com/max-unavailable on the DaemonSet or gr wins.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number of at least 1 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// pools limits the unavailable nodes within each group of nodes with the
	// same value of a label as well. Default: no such limit.
	// +optional
	Pools *PoolPolicy `json:"pools,omitempty"`
	// waves are upgraded one after the other: a wave starts when every reachable
	// node of those before it is updated. Nodes in no wave form the last one.
	// Default: one wave of all nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Waves []Wave `json:"waves,omitempty"`
	// controlPlane says when control plane nodes are upgraded within their wave:
	// First, Last or Any. Default First.
	// +optional
	// +kubebuilder:default=First
	ControlPlane ControlPlaneOrder `json:"controlPlane,omitempty"`
	// progressDeadlineSeconds is how long a reachable node may take before it
	// counts as failed. Default 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// lostDeadlineSeconds is how long a node that went offline after it was
	// started keeps its slot before it counts as failed. Default 900.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LostDeadlineSeconds *int32 `json:"lostDeadlineSeconds,omitempty"`
	// unavailableSeconds is how long a Ready node must be unavailable before it is
	// started ahead of the waves: it may have just returned. A started node whose
	// pods start again waits as long before it gets an operation. Default 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnavailableSeconds *int32 `json:"unavailableSeconds,omitempty"`
	// probationSeconds is how long a node is on probation after its new pods are available,
	// unless its kubelet renews its Lease earlier. At most as many nodes are on probation or in
	// flight as may be unavailable, plus one for each node that has passed its probation. A node that goes offline
	// within this time after a new pod was created counts as a failure of the revision. A revision is known to be
	// good when this time has passed since its last node made progress. 0 turns all of it off. Default 120.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	ProbationSeconds *int32 `json:"probationSeconds,omitempty"`
	// returnedSeconds is how long a node must have been Ready without a break
	// before it is started, so that flapping nodes are not started. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReturnedSeconds *int32 `json:"returnedSeconds,omitempty"`
	// prepull says whether images are pulled before a node loses its pod, for a change that only replaces
	// pods. Auto: where the node agent can pull them; a node whose images cannot be pulled keeps its pod, and the
	// pull is retried. Never: the kubelet pulls them when the new pod starts. An operation always pulls its own
	// images, and under update strategy OTA the node's user requests the pull. Default Auto.
	// +optional
	// +kubebuilder:default=Auto
	Prepull PrepullMode `json:"prepull,omitempty"`
	// failure says when failed nodes halt the rollout.
	// +optional
	Failure *FailurePolicy `json:"failure,omitempty"`
	// window limits when nodes are started. Default: always.
	// +optional
	Window *MaintenanceWindow `json:"window,omitempty"`
	// drain says how a node is emptied before its driver or its container runtime
	// is changed. Default: pods that use a GCU are evicted for up to 300 seconds.
	// +optional
	Drain *DrainPolicy `json:"drain,omitempty"`
	// validation is checked before and after a node's driver or toolkit is changed.
	// +optional
	Validation *ValidationPolicy `json:"validation,omitempty"`
	// versions says which versions may follow each other on a node, and which fit together there.
	// A node waits if its upgrade is not allowed (reason VersionNotAllowed). Default: all are allowed.
	// +optional
	Versions *VersionPolicy `json:"versions,omitempty"`
}

// ValidationPolicy is checked before and after an operation on a node.
type ValidationPolicy struct {
	// minFreeDisk the node must have where its container engine keeps images.
	// Default: not checked.
	// +optional
	MinFreeDisk *resource.Quantity `json:"minFreeDisk,omitempty"`
	// driverVersion that must be loaded afterwards, as in
	// /sys/module/enflame/version. Default: any.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DriverVersion string `json:"driverVersion,omitempty"`
	// deadlineSeconds within which the checks must succeed, or the node counts as failed.
	// Default 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	DeadlineSeconds int32 `json:"deadlineSeconds,omitempty"`
	// soakSeconds all pods must be available without a restart before the node is
	// uncordoned. Default 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
}

// ControlPlaneOrder is when control plane nodes are upgraded.
//
// +kubebuilder:validation:Enum=First;Last;Any
type ControlPlaneOrder string

// Places of control plane nodes in the order.
const (
	ControlPlaneFirst ControlPlaneOrder = "First"
	ControlPlaneLast  ControlPlaneOrder = "Last"
	ControlPlaneAny   ControlPlaneOrder = "Any"
)

// PoolPolicy limits the unavailable nodes of each pool.
type PoolPolicy struct {
	// topologyKey is the node label whose values are the pools, such as
	// topology.kubernetes.io/zone. Nodes without it are a pool of their own.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	TopologyKey string `json:"topologyKey"`
	// maxUnavailable is the number, or the percentage of the pool's nodes, that
	// may be unavailable at once.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : self.matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number of at least 1 or a percentage from 1% to 100%"
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
}

// Wave is a set of nodes that is upgraded before others.
//
// +kubebuilder:validation:XValidation:rule="has(self.selector) != has(self.size)",message="a wave has either a selector or a size"
// +kubebuilder:validation:XValidation:rule="self.name != 'rest'",message="rest is the name of the nodes that are in no wave"
type Wave struct {
	// name of the wave in status, messages and approvals.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// selector takes the nodes with matching labels that no wave before took.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// size takes a number, or a percentage of all nodes of the rollout, from
	// those that no wave before took, in a stable order.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]?|100)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1 && self <= 2147483647",message="size must be a number of at least 1 or a percentage from 1% to 100%"
	Size *intstr.IntOrString `json:"size,omitempty"`
	// soakSeconds is how long the wave must have been complete before the next
	// one starts. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
	// approval says when the wave may start. Manual: only once it is approved with the annotation
	// topsops.enflame.com/approved-waves on the DaemonRollout. Default Automatic.
	// +optional
	// +kubebuilder:default=Automatic
	Approval WaveApproval `json:"approval,omitempty"`
}

// WaveApproval is how a wave is approved.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type WaveApproval string

// Approvals of a wave.
const (
	ApprovalAutomatic WaveApproval = "Automatic"
	ApprovalManual    WaveApproval = "Manual"
)

// FailurePolicy says when failed nodes halt the rollout, and what happens then.
type FailurePolicy struct {
	// threshold is the number, or the percentage of the nodes started so far,
	// that must have failed. Default: the larger of 2 and 10%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : self.matches('^([1-9][0-9]?|100)%$')",message="threshold must be a number of at least 1 or a percentage from 1% to 100%"
	Threshold *intstr.IntOrString `json:"threshold,omitempty"`
	// action is Halt, Rollback or RollbackNode. Halt: no new node starts. Rollback: no new node
	// starts, and the group is rolled back to status.lastKnownGood of its
	// DaemonRollout; without one it stays halted. RollbackNode: each node that fails is rolled back individually, at
	// once, and kept there (status.pinned); it counts toward the threshold, at which the rollout halts.
	// This needs the manager's flag --gate. Default Halt.
	// +optional
	// +kubebuilder:default=Halt
	Action FailureAction `json:"action,omitempty"`
	// minFailedNodes is how many nodes must have failed for a rollback, or all nodes of a
	// smaller group: what one or two nodes report about themselves is no evidence
	// about a version. With fewer failures, the group stays halted. A failed node uses the
	// budget, so a smaller budget never reaches this number: set it lower where the
	// nodes are trusted. Default 3, regardless of threshold. Only for action Rollback.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinFailedNodes int32 `json:"minFailedNodes,omitempty"`
	// rollbackNotBefore keeps a rollback from going back too far, for instance to a version
	// with a known vulnerability. A last known good revision that became good before this time is not restored, and
	// the group stays halted; nor is a single node brought back to a revision that became good, or was created,
	// before. Default: no limit.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	RollbackNotBefore *metav1.Time `json:"rollbackNotBefore,omitempty"`
}

// PrepullMode says when images are pulled before a change.
//
// +kubebuilder:validation:Enum=Auto;Never
type PrepullMode string

// Modes of pulling images.
const (
	PrepullAuto  PrepullMode = "Auto"
	PrepullNever PrepullMode = "Never"
)

// FailureAction is what happens when too many nodes failed.
//
// +kubebuilder:validation:Enum=Halt;Rollback;RollbackNode
type FailureAction string

const (
	// FailureHalt starts no new node.
	FailureHalt FailureAction = "Halt"
	// FailureRollback starts no new node and goes back to the last known good revision.
	FailureRollback FailureAction = "Rollback"
	// FailureRollbackNode rolls back each failed node alone; others go on until the threshold halts the rollout.
	FailureRollbackNode FailureAction = "RollbackNode"
)

// MaintenanceWindow is a time in the week in which nodes may be started. A node
// is not started when its usual duration does not fit into what is left.
type MaintenanceWindow struct {
	// days on which the window opens. Default: every day.
	// +optional
	// +listType=set
	Days []Weekday `json:"days,omitempty"`
	// start is the time of day at which the window opens, HH:MM.
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	Start string `json:"start"`
	// durationMinutes is how long it stays open, at most a week.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10080
	DurationMinutes int32 `json:"durationMinutes"`
	// timeZone is the IANA name of the zone of start, such as Asia/Shanghai.
	// Default UTC.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
	// timeZoneNodeLabel is a node label with the IANA name of the node's own
	// zone, with a dot for each slash (Asia.Shanghai). A node without it uses timeZone.
	// +optional
	TimeZoneNodeLabel string `json:"timeZoneNodeLabel,omitempty"`
}

// Weekday is a day of the week.
//
// +kubebuilder:validation:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
type Weekday string
