package v1

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeOperation is one operation on the node, with all of its inputs.
//
// +kubebuilder:validation:XValidation:rule="self.id != oldSelf.id || (self.nodeUID == oldSelf.nodeUID && self.purpose == oldSelf.purpose && self.targets == oldSelf.targets && self.job == oldSelf.job)",message="an operation's node, purpose, targets and job cannot change: use another id"
// +kubebuilder:validation:XValidation:rule="self.id != oldSelf.id || !(has(oldSelf.abort) && oldSelf.abort) || (has(self.abort) && self.abort)",message="abort cannot be reverted: use another id"
// +kubebuilder:validation:XValidation:rule="self.id != oldSelf.id || !(has(oldSelf.granted) && oldSelf.granted) || (has(self.granted) && self.granted)",message="granted cannot be reverted: abort the operation"
type NodeOperation struct {
	// id of the operation, never reused: at most 63 letters, digits, '-' and '.'.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`
	ID string `json:"id"`
	// nodeUID is the UID of the Node object; a different Node with the same name does not match.
	NodeUID types.UID `json:"nodeUID"`
	// rollout that gave the node its slot, as namespace/name of the DaemonRollout.
	// +optional
	Rollout string `json:"rollout,omitempty"`
	// revision of the rollout group that the node is brought to.
	// +optional
	Revision string `json:"revision,omitempty"`
	// purpose is Upgrade, or Rollback to the last known good revision: a rollback
	// that fails quarantines the node. Default Upgrade.
	// +optional
	// +kubebuilder:default=Upgrade
	Purpose OperationPurpose `json:"purpose,omitempty"`
	// targets are the components that the operation changes, each with its wanted revision.
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Targets []OperationTarget `json:"targets"`
	// job lists the stages, which run one after the other; the tasks of a stage run at
	// the same time and are written as host_target_action.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Job []JobStage `json:"job"`
	// driverVersion the loaded driver must have. Default: any that is loaded.
	// +optional
	DriverVersion string `json:"driverVersion,omitempty"`
	// defaultRuntime the container engine must have after a change of the toolkit.
	// Default enflame.
	// +optional
	// +kubebuilder:default=enflame
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
	DefaultRuntime string `json:"defaultRuntime,omitempty"`
	// minFreeDiskBytes the node must have before it is touched. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinFreeDiskBytes int64 `json:"minFreeDiskBytes,omitempty"`
	// drain says how the node is drained. Default: as in an UpgradePolicy.
	// +optional
	Drain *DrainPolicy `json:"drain,omitempty"`
	// deadlines of the tasks.
	// +optional
	Deadlines OperationDeadlines `json:"deadlines,omitempty,omitzero"`
	// onlyIdle ends the operation as Deferred, before it touches the node, if a pod or a plain container uses a
	// card there. If the restart of the runtime stops plain containers, also if one that the node agent cannot
	// see may use a card. Pods of the operator's own components do not count. It is set under update strategy OTA
	// for an operation without a request.
	// +optional
	OnlyIdle bool `json:"onlyIdle,omitempty"`
	// granted lets the operation touch the node: the node has its slot. Until then it
	// is only prepared: prechecks run and images are pulled. It cannot be reverted.
	// +optional
	Granted bool `json:"granted,omitempty"`
	// abort aborts the operation and uncordons the node. It cannot be reverted.
	// +optional
	Abort bool `json:"abort,omitempty"`
}

// JobStage lists the tasks that run at the same time.
//
// +listType=atomic
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=16
type JobStage []TaskName

// TaskName is host_target_action.
//
// +kubebuilder:validation:MaxLength=381
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.-]+_[A-Za-z0-9.-]+_[A-Za-z0-9.-]+$`
type TaskName string

// OperationPurpose is what an operation is for.
//
// +kubebuilder:validation:Enum=Upgrade;Rollback
type OperationPurpose string

// Purposes of an operation.
const (
	PurposeUpgrade  OperationPurpose = "Upgrade"
	PurposeRollback OperationPurpose = "Rollback"
)

// NamespacedRef identifies one namespaced object.
type NamespacedRef struct {
	// namespace of the object.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// name of the object.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// uid of the object; a different object with the same name does not match.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
}

// OperationTarget is one component and its wanted revision.
type OperationTarget struct {
	// component is its key in the spec of a GcuResource, such as driver.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component"`
	// daemonSet of the component.
	DaemonSet NamespacedRef `json:"daemonSet"`
	// revision is the wanted controller-revision-hash of its pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision"`
	// keptFrom is the newest revision of the DaemonSet when the node is rolled back individually: the wanted revision is then
	// an earlier one, whose pod the operator creates. Empty: the wanted revision is the newest one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	KeptFrom string `json:"keptFrom,omitempty"`
	// previous is the revision its pod had before, if that is another one; or the wanted one, if no operation has verified that yet: a failure then counts for it as if it were new.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Previous string `json:"previous,omitempty"`
	// images of the wanted revision, pulled before the node is touched.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Images []string `json:"images,omitempty"`
	// pullSecrets are names of Secrets in the namespace of the DaemonSet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// leaving are DaemonSets that the component has under other names, or in other namespaces. Their pods
	// leave the node first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Leaving []DaemonSetRevision `json:"leaving,omitempty"`
}

// DaemonSetRevision is a revision of a DaemonSet.
type DaemonSetRevision struct {
	// daemonSet of a component.
	DaemonSet NamespacedRef `json:"daemonSet"`
	// revision is the controller-revision-hash of a pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision"`
}

// All returns the DaemonSets of the component with the wanted revisions of their pods: first those that are leaving,
// then its own.
func (t *OperationTarget) All() []DaemonSetRevision {
	return append(slices.Clone(t.Leaving), DaemonSetRevision{t.DaemonSet, t.Revision})
}

// AllNewest is All with the newest revision that each DaemonSet must have, which differs from the wanted one where
// the node is rolled back individually.
func (t *OperationTarget) AllNewest() []DaemonSetRevision {
	return append(slices.Clone(t.Leaving), DaemonSetRevision{t.DaemonSet, cmp.Or(t.KeptFrom, t.Revision)})
}

// OperationDeadlines limit the tasks; 0 is the default.
type OperationDeadlines struct {
	// precheckSeconds within which the node must meet the prechecks. Default 120.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PrecheckSeconds int32 `json:"precheckSeconds,omitempty"`
	// prepullSeconds for pulling the images. Default 900.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PrepullSeconds int32 `json:"prepullSeconds,omitempty"`
	// progressSeconds until a replaced pod is available, and until the node accepts
	// a cordon. Default 600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ProgressSeconds int32 `json:"progressSeconds,omitempty"`
	// restartSeconds for the restart of the runtime. Default 420.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RestartSeconds int32 `json:"restartSeconds,omitempty"`
	// verifySeconds within which the verification must succeed. Default 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	VerifySeconds int32 `json:"verifySeconds,omitempty"`
	// soakSeconds for which all pods must have been available without a restart. Default 60.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
	// lostSeconds for which a node may be offline. Default 900.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LostSeconds int32 `json:"lostSeconds,omitempty"`
	// agentSilenceSeconds without a report after which the node agent counts as not
	// running. Default 180.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AgentSilenceSeconds int32 `json:"agentSilenceSeconds,omitempty"`
	// operationSeconds for the whole operation, and up to lostSeconds more while the node is offline. Default: 7200, more if tasks have longer deadlines.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OperationSeconds int32 `json:"operationSeconds,omitempty"`
}

// OperationPhase is the phase of an operation.
//
// +kubebuilder:validation:Enum=Running;Releasing;Done;Failed;Deferred;Aborted;Quarantined
type OperationPhase string

const (
	// OperationRunning means that the operation works through its job.
	OperationRunning OperationPhase = "Running"
	// OperationReleasing means that the operation uncordons the node; the phase in status.operation.outcome follows.
	OperationReleasing OperationPhase = "Releasing"
	// OperationDone means that every task is done or skipped.
	OperationDone OperationPhase = "Done"
	// OperationFailed means that the operation failed, which counts against the version.
	OperationFailed OperationPhase = "Failed"
	// OperationDeferred means that the operation could not be done now, through no fault of the version.
	OperationDeferred OperationPhase = "Deferred"
	// OperationAborted means that a person or a newer target ended the operation.
	OperationAborted OperationPhase = "Aborted"
	// OperationQuarantined means that a rollback failed. The node stays cordoned until
	// another operation, an abort, or the end of the rollout.
	OperationQuarantined OperationPhase = "Quarantined"
)

// Final reports whether the job of an operation in this phase has ended.
func (p OperationPhase) Final() bool {
	return p != "" && p != OperationRunning && p != OperationReleasing
}

// OperationStatus is the observed state of an operation.
type OperationStatus struct {
	// id of the operation.
	ID string `json:"id"`
	// purpose, revision and rollout as in the spec.
	// +optional
	Purpose OperationPurpose `json:"purpose,omitempty"`
	// revision of the rollout group.
	// +optional
	Revision string `json:"revision,omitempty"`
	// rollout that gave the slot.
	// +optional
	Rollout string `json:"rollout,omitempty"`
	// phase of the operation.
	Phase OperationPhase `json:"phase"`
	// outcome is the phase that follows Releasing.
	// +optional
	Outcome OperationPhase `json:"outcome,omitempty"`
	// reason in one word: why it ended, or what it waits for.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// task that is running; empty when there is none.
	// +optional
	Task string `json:"task,omitempty"`
	// since is when phase or task last changed.
	Since metav1.Time `json:"since"`
	// startTime of the operation; once it is granted, the time when the grant was seen.
	StartTime metav1.Time `json:"startTime"`
	// preparedTime is when everything that needs no grant was done; absent until then.
	// +optional
	PreparedTime *metav1.Time `json:"preparedTime,omitempty"`
	// granted reports whether the grant was seen: from then on the node may be touched.
	// +optional
	Granted bool `json:"granted,omitempty"`
	// endTime is when the phase became final.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// touched reports whether the operation changed the node: chose a pod for deletion, or requested a restart of the runtime.
	// +optional
	Touched bool `json:"touched,omitempty"`
	// held reports whether the operation has ended and its node is kept cordoned.
	// +optional
	Held bool `json:"held,omitempty"`
	// cordonedBy is the id that the mark of the node's cordon names, if it is not this operation's: that of
	// the failed operation whose cordon this one took over. Unless this one is done or aborted, the node stays cordoned.
	// +optional
	CordonedBy string `json:"cordonedBy,omitempty"`
	// foreignCordon reports whether the node had been cordoned by someone else.
	// +optional
	ForeignCordon bool `json:"foreignCordon,omitempty"`
	// drainAll reports whether every pod is evicted, because a restart of the node's runtime stops its containers.
	// +optional
	DrainAll bool `json:"drainAll,omitempty"`
	// inUse reports whether a card of the node was, or may have been, in use when an operation
	// that is onlyIdle last looked. Until it is granted, such an operation waits in that case.
	// +optional
	InUse bool `json:"inUse,omitempty"`
	// before is the state of the node before it was touched.
	// +optional
	Before *NodeBefore `json:"before,omitempty"`
	// override is the last value of the annotation topsops.enflame.com/task-override that was read.
	// +optional
	Override string `json:"override,omitempty"`
	// tasks in the order of the job.
	// +optional
	// +listType=map
	// +listMapKey=name
	Tasks []OperationTask `json:"tasks,omitempty"`
}

// NodeBefore is the state of a node before it was touched.
type NodeBefore struct {
	// driverVersion that was loaded; empty for none.
	// +optional
	DriverVersion string `json:"driverVersion,omitempty"`
	// devices is the number of cards.
	// +optional
	Devices int32 `json:"devices,omitempty"`
	// bootID of the node.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// allocatable resources of the accelerator.
	// +optional
	Allocatable map[string]int64 `json:"allocatable,omitempty"`
}

// OperationTaskState is the state of a task of a job.
//
// +kubebuilder:validation:Enum=Pending;Running;Done;Failed;Skipped;Undoing;Undone
type OperationTaskState string

// States of a task of a job.
const (
	OperationTaskPending OperationTaskState = "Pending"
	OperationTaskRunning OperationTaskState = "Running"
	OperationTaskDone    OperationTaskState = "Done"
	OperationTaskFailed  OperationTaskState = "Failed"
	OperationTaskSkipped OperationTaskState = "Skipped"
	// Undoing and Undone are states that earlier versions recorded.
	OperationTaskUndoing OperationTaskState = "Undoing"
	OperationTaskUndone  OperationTaskState = "Undone"
)

// OperationTask is one task of the job.
type OperationTask struct {
	// name is host_target_action.
	Name string `json:"name"`
	// state of the task.
	State OperationTaskState `json:"state"`
	// reason in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// startTime is when it was last started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when it was observed to be done or failed.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// attempts counts how often it was started. A restart of the runtime that had to wait for an earlier task again keeps its number.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// pod that may be deleted: the intent, stored before the effect.
	// +optional
	Pod *NamedPod `json:"pod,omitempty"`
	// users are the pods that use the device and may be deleted before the driver's.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Users []NamedPod `json:"users,omitempty"`
	// again is a pod that is replaced although it already has the wanted revision, because the
	// task is retried.
	// +optional
	Again types.UID `json:"again,omitempty"`
}

// NamedPod is one version of a pod.
type NamedPod struct {
	NamespacedRef `json:",inline"`
	// resourceVersion of the pod, the precondition of the deletion.
	ResourceVersion string `json:"resourceVersion"`
}
