package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// UpgradePlan is a plan that a person has written, or edited: which nodes of a gr are upgraded, in
// which batches, with which tasks. It is in force while the annotation
// topsops.enflame.com/upgrade-plan of the gr names it; nodes and components that are not in it
// wait. Budgets, the waves of the UpgradePolicy, windows, holds and pauses still apply. The plan
// and its result are kept until a user deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=upgradeplans,singular=upgradeplan,shortName=gpl,scope=Cluster
// +kubebuilder:printcolumn:name="GR",type=string,JSONPath=`.spec.gcuResource`
// +kubebuilder:printcolumn:name="DONE",type=integer,JSONPath=`.status.done`
// +kubebuilder:printcolumn:name="FAIL",type=integer,JSONPath=`.status.fail`
// +kubebuilder:printcolumn:name="UNDO",type=integer,JSONPath=`.status.undo`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type UpgradePlan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the plan.
	Spec UpgradePlanSpec `json:"spec"`
	// status is its result, written by the operator.
	// +optional
	Status UpgradePlanStatus `json:"status,omitempty"`
}

// UpgradePlanList is a list of UpgradePlan.
//
// +kubebuilder:object:root=true
type UpgradePlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the UpgradePlans.
	Items []UpgradePlan `json:"items"`
}

// UpgradePlanSpec is the plan: what is done on which nodes, in which order.
type UpgradePlanSpec struct {
	// gcuResource is the name of the gr.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	GcuResource string `json:"gcuResource"`
	// revision is the name of the revision of the gr's spec that the plan upgrades to. Nothing
	// starts while the gr has another one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision"`
	// from is the name of the revision that the gr had when the plan was written.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	From string `json:"from,omitempty"`
	// wanted is the spec of the gr that has this revision: kubectl gcu upgrade --plan writes it
	// into the gr.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Wanted *runtime.RawExtension `json:"wanted,omitempty"`
	// jobs describe what is done on a node; each batch says which nodes have which job.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Jobs []PlannedJob `json:"jobs"`
	// batches are done one after the other: a batch starts when every reachable node of the batches before
	// it is done. Within a batch, nodes start as the budget allows.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Batches []PlannedBatch `json:"batches"`
	// before are the global tasks that are done, one after the other, before a node starts. Default
	// none.
	// +optional
	// +listType=map
	// +listMapKey=task
	// +kubebuilder:validation:MaxItems=20
	Before []GlobalTask `json:"before,omitempty"`
	// after are the global tasks that are done, one after the other, once every batch has had its turn
	// and every reachable node of the plan, at least one, is done. Default none.
	// +optional
	// +listType=map
	// +listMapKey=task
	// +kubebuilder:validation:MaxItems=20
	After []GlobalTask `json:"after,omitempty"`
}

// GlobalTask is a task of the cluster, not of a node: a Job that is created once from the template of a
// CronJob.
type GlobalTask struct {
	// task as target_action, such as database_backup. Prefixed with upg-server, the host of all global tasks, it is
	// the name of the task (host_target_action).
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?_[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Task string `json:"task"`
	// cronJob is the name of a CronJob in the namespace of the operator with the label
	// topsops.enflame.com/global-task: "true", whose template names a ServiceAccount of its own. It
	// may be suspended.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	CronJob string `json:"cronJob"`
}

// PlannedJob is what is done on each of some nodes.
type PlannedJob struct {
	// name of the job within the plan.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// reason is why these nodes have this job.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// seconds is how long a node usually takes; 0 if that is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Seconds int32 `json:"seconds,omitempty"`
	// removes lists the components of the job that are removed from the node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Removes []string `json:"removes,omitempty"`
	// stages are done one after the other.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Stages []PlannedStage `json:"stages"`
}

// PlannedStage lists tasks that run at the same time, each as target_action. Prefixed with the name of the node, it
// is the name of the task (host_target_action).
//
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=64
// +kubebuilder:validation:items:MaxLength=128
type PlannedStage []string

// PlannedBatch lists nodes that are upgraded at the same time.
type PlannedBatch struct {
	// name of the batch within the plan.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// approval says when the batch may start. Manual: only once it is approved, like a wave (kubectl gcu approve).
	// Default Automatic.
	// +optional
	// +kubebuilder:default=Automatic
	Approval WaveApproval `json:"approval,omitempty"`
	// nodes by their jobs.
	// +listType=map
	// +listMapKey=job
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Jobs []PlannedNodes `json:"jobs"`
}

// PlannedNodes lists the nodes of a batch that have the same job.
type PlannedNodes struct {
	// job is the name of a job of the plan.
	// +kubebuilder:validation:MaxLength=63
	Job string `json:"job"`
	// nodes by name.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20000
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes"`
}

// UpgradePlanStatus is the result of a plan: for each node done, fail or undo. It is final once
// the plan is no longer in force.
type UpgradePlanStatus struct {
	// observedGeneration of the spec that the result is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// time of the result.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// rolledBackTime is when an automatic rollback reverted what the plan did; the rest of the status is from
	// before the rollback. Absent: not rolled back.
	// +optional
	RolledBackTime *metav1.Time `json:"rolledBackTime,omitempty"`
	// done is the number of nodes on which every task is done.
	// +optional
	Done int32 `json:"done"`
	// fail is the number of nodes that failed.
	// +optional
	Fail int32 `json:"fail"`
	// undo is the number of nodes that are not known to be done: they were offline, have not
	// had their turn yet, are held, or are in progress.
	// +optional
	Undo int32 `json:"undo"`
	// failed are the nodes that failed, in the order of the plan; at most 128 KiB of them.
	// +optional
	// +listType=atomic
	Failed []FailedNode `json:"failed,omitempty"`
	// undone are the names of the nodes that count as undo, in the order of the plan; at most 256
	// KiB of them.
	// +optional
	// +listType=atomic
	Undone []string `json:"undone,omitempty"`
	// tasks are the results of the global tasks, in the order of the plan.
	// +optional
	// +listType=map
	// +listMapKey=task
	Tasks []GlobalTaskNote `json:"tasks,omitempty"`
}

// GlobalTaskNote is the progress of a global task.
type GlobalTaskNote struct {
	// task as host_target_action.
	Task string `json:"task"`
	// job is the name of its Job in the namespace of the operator.
	Job string `json:"job"`
	// result is done, fail or undo. A task that is done is not run again.
	// +kubebuilder:validation:Enum=done;fail;undo
	Result string `json:"result"`
	// message says why it failed, or what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// FailedNode is a node of a plan that failed.
type FailedNode struct {
	// node by name.
	Node string `json:"node"`
	// task that failed, as host_target_action; empty if the node failed for another reason. The
	// tasks before it are done, those after it are not; where a job only replaces pods, done says
	// which are.
	// +optional
	Task string `json:"task,omitempty"`
	// done lists the components whose pods were replaced all the same, unless an operation failed.
	// +optional
	// +listType=atomic
	Done []string `json:"done,omitempty"`
	// message says why.
	// +optional
	Message string `json:"message,omitempty"`
}
