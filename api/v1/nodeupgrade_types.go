package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeUpgrade holds the work on one node and its progress. It has the node's name
// and is owned by the Node object. There is one operation on a node at a time: the
// one in spec.operation. A request made on the node is in status.requests, and the
// answer to it in status.tasks. Every part has one writer,
// with a field manager of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=nodeupgrades,singular=nodeupgrade,shortName=nu,scope=Cluster
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.operation.phase`
// +kubebuilder:printcolumn:name="TASK",type=string,JSONPath=`.status.operation.task`
// +kubebuilder:printcolumn:name="SINCE",type=date,JSONPath=`.status.operation.since`
// +kubebuilder:printcolumn:name="REQUEST",type=string,JSONPath=`.status.tasks[-1:].state`
// +kubebuilder:printcolumn:name="REQUEST-MESSAGE",type=string,JSONPath=`.status.tasks[-1:].message`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,JSONPath=`.status.operation.message`
// +kubebuilder:printcolumn:name="REQUEST-TASK",type=string,priority=1,JSONPath=`.status.tasks[-1:].name`
// +kubebuilder:printcolumn:name="REQUEST-SINCE",type=date,priority=1,JSONPath=`.status.tasks[-1:].startTime`
// +kubebuilder:printcolumn:name="AGE",type=date,priority=1,JSONPath=`.metadata.creationTimestamp`
type NodeUpgrade struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the node.
	// +optional
	Spec NodeUpgradeSpec `json:"spec,omitempty,omitzero"`
	// status has one part per writer.
	// +optional
	Status NodeUpgradeStatus `json:"status,omitempty"`
}

// NodeUpgradeList is a list of NodeUpgrade.
//
// +kubebuilder:object:root=true
type NodeUpgradeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the NodeUpgrades.
	Items []NodeUpgrade `json:"items"`
}

// NodeUpgradeSpec is the desired state of the node.
type NodeUpgradeSpec struct {
	// operation to be carried out. Removing it ends the operation and uncordons the node
	// if it was cordoned for it. Default: none.
	// +optional
	Operation *NodeOperation `json:"operation,omitempty"`
	// prepulls are images that the node agent pulls before the pods that need them are created, without an
	// operation: at most one per DaemonSet, of its newest revision. Their results are in status.host.results,
	// with the id as operation. Applied by the operator. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=8
	Prepulls []Prepull `json:"prepulls,omitempty"`
}

// Prepull asks the node agent to pull the images of a revision of a DaemonSet.
type Prepull struct {
	// id of the pull, never reused: at most 63 letters, digits, '-' and '.'.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`
	ID string `json:"id"`
	// attempt is incremented to repeat a failed pull.
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt"`
	// time is when this attempt was requested.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	Time metav1.Time `json:"time"`
	// daemonSet whose pod needs the images.
	DaemonSet NamespacedRef `json:"daemonSet"`
	// revision that the images are of: the hash of a ControllerRevision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision"`
	// images of the revision.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Images []string `json:"images"`
	// pullSecrets are names of Secrets in the namespace of the DaemonSet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// Reasons of the result of a pull.
const (
	// ReasonPullFailed, ReasonPullTimedOut, ReasonBadPullSecret: why the node agent could not pull an image.
	ReasonPullFailed    = "PullFailed"
	ReasonPullTimedOut  = "PullTimedOut"
	ReasonBadPullSecret = "BadPullSecret"
	// ReasonLeftToKubelet: only the kubelet may be able to pull an image.
	ReasonLeftToKubelet = "LeftToKubelet"
)

// NodeUpgradeStatus has one part per writer.
type NodeUpgradeStatus struct {
	// agent describes the node agent.
	// +optional
	Agent *AgentStatus `json:"agent,omitempty"`
	// requests made on the node, oldest first, applied by the node agent.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	Requests []UpgradeRequest `json:"requests,omitempty"`
	// pulls of images that were requested on the node, the newest last, applied by the
	// node agent. The operator reports them on the pods (condition PodImageReady).
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=20
	Pulls []ImagePull `json:"pulls,omitempty"`
	// tasks that answer the requests, and annotation task-override where it is not about an operation;
	// applied by the operator.
	// +optional
	// +listType=map
	// +listMapKey=requestID
	// +kubebuilder:validation:MaxItems=65
	Tasks []UpgradeTask `json:"tasks,omitempty"`

	// operation is the state of the operation of spec.operation, or of the last one;
	// applied by the operator.
	// +optional
	Operation *OperationStatus `json:"operation,omitempty"`
	// history has the last 20 operations that ended, the newest last. The last operation that touched a
	// component, and the last that was done, are kept even if they are older. Applied by the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []OperationRecord `json:"history,omitempty"`
	// host is the state of the node, and the results of the tasks that the node agent
	// runs there; applied by the node agent.
	// +optional
	Host *HostReport `json:"host,omitempty"`
}

// RequestedTasks returns the tasks of the operation that have begun and not ended; the node agent picks
// those that it executes. There are none unless spec and status are about the same running operation. The agent
// reads the object past any cache before it acts.
func (n *NodeUpgrade) RequestedTasks() []OperationTask {
	asked, operation := n.Spec.Operation, n.Status.Operation
	if asked == nil || operation == nil || asked.ID != operation.ID || asked.Abort || operation.Phase != OperationRunning {
		return nil
	}
	var tasks []OperationTask
	for _, t := range operation.Tasks {
		if t.State == OperationTaskRunning {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// AgentStatus describes the node agent, in its own words.
type AgentStatus struct {
	// version of the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
	// capabilities of the agent, such as prepull and restart-runtime: the kinds of tasks that it
	// executes. An operation with a task of another kind does not start on the node (reason
	// AgentTooOld). Without prepull-light, no images are pulled before pods are replaced without an operation.
	// Absent, for an agent of a version that does not report them: prepull, restart-runtime, verify-driver and
	// verify-runtime.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Capabilities []string `json:"capabilities,omitempty"`
	// restartsRuntime reports whether the agent restarts the container engine when an operation
	// requires it (its option --restart-runtime), or leaves that to an administrator. Absent, for
	// an agent of a version that does not report it: unknown.
	// +optional
	RestartsRuntime *bool `json:"restartsRuntime,omitempty"`
	// startTime of the agent process.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	StartTime metav1.Time `json:"startTime,omitempty"`
	// hold is set while there is a local hold on the node: no rollout starts on it, and what is
	// in flight there continues. Default: none.
	// +optional
	Hold *NodeHold `json:"hold,omitempty"`
}

// NodeHold excludes a node from upgrades.
type NodeHold struct {
	// since is when the hold was set.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	Since metav1.Time `json:"since"`
	// message is the explanation given with the hold.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// UpgradeRequest asks to replace one pod of a DaemonSet with one at the newest revision.
type UpgradeRequest struct {
	// id is the same for the same pod and revision: requests are idempotent.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`
	// daemonSet that owns the pod.
	DaemonSet NamespacedRef `json:"daemonSet"`
	// pod to be replaced.
	Pod NamespacedRef `json:"pod"`
	// revision that is requested: the hash of the DaemonSet's newest revision at the time of the
	// request. If there is a newer one before the node has started, the task fails with reason
	// RevisionChanged. Older node agents do not set it: then it is the newest when the node starts.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`
	// requestTime is when the request was accepted on the node.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	RequestTime metav1.Time `json:"requestTime"`
	// operation of the node's endpoint that the request is part of; empty for a single
	// request.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Operation string `json:"operation,omitempty"`
	// withdrawn is set when the request is withdrawn on the node: it no longer starts,
	// and what has started continues. Its task says which of the two it was.
	// +optional
	Withdrawn bool `json:"withdrawn,omitempty"`
	// rollback requests the opposite: this node alone goes back from revision to the previous one, and is kept there
	// (docs/adr/0021). The pod may have been replaced by another one of the same revision since.
	// +optional
	Rollback bool `json:"rollback,omitempty"`
}

// ImagePull is a pull of the images of the newest revision of one pod.
type ImagePull struct {
	// id is the same for the same pod and revision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ID string `json:"id"`
	// daemonSet that owns the pod.
	DaemonSet NamespacedRef `json:"daemonSet"`
	// pod that the images are for.
	Pod NamespacedRef `json:"pod"`
	// revision whose images are pulled: the hash of a ControllerRevision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision"`
	// state is Pulling, Ready or Failed; a failed pull can be repeated.
	State PullState `json:"state"`
	// message says why it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// time is when it entered this state.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	Time metav1.Time `json:"time"`
}

// PullState is the state of a pull.
//
// +kubebuilder:validation:Enum=Pulling;Ready;Failed
type PullState string

// States of a pull.
const (
	PullPulling PullState = "Pulling"
	PullReady   PullState = "Ready"
	PullFailed  PullState = "Failed"
)

// TaskState is the state of a task.
//
// +kubebuilder:validation:Enum=Waiting;Running;Done;Failed;Withdrawn
type TaskState string

// States of a task. Done, Failed and Withdrawn are final.
const (
	TaskWaiting TaskState = "Waiting"
	TaskRunning TaskState = "Running"
	TaskDone    TaskState = "Done"
	TaskFailed  TaskState = "Failed"
	// TaskWithdrawn: the request was withdrawn before the node was touched.
	TaskWithdrawn TaskState = "Withdrawn"
)

// Final reports whether the state is final.
func (s TaskState) Final() bool { return s == TaskDone || s == TaskFailed || s == TaskWithdrawn }

// UpgradeTask is one atomic action on one target on this node.
type UpgradeTask struct {
	// requestID is the id of the request this task answers.
	RequestID string `json:"requestID"`
	// name is host_target_action.
	Name string `json:"name"`
	// state is Waiting, Running, Done, Failed or Withdrawn.
	State TaskState `json:"state"`
	// reason in one word: why it waits, or how it ended.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// startTime is when the node was given its slot.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is when the state became final.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	EndTime *metav1.Time `json:"endTime,omitempty"`
}
