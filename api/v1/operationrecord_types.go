package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// OperationRecord is an operation that ended.
type OperationRecord struct {
	// id of the operation.
	ID string `json:"id"`
	// purpose of the operation.
	// +optional
	Purpose OperationPurpose `json:"purpose,omitempty"`
	// revision of the rollout group.
	// +optional
	Revision string `json:"revision,omitempty"`
	// phase it ended in.
	Phase OperationPhase `json:"phase"`
	// reason in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// startTime of the operation.
	StartTime metav1.Time `json:"startTime"`
	// endTime of the operation.
	EndTime metav1.Time `json:"endTime"`
	// touched reports whether the operation changed the node. Unless the phase is Done, the
	// changes were not verified.
	// +optional
	Touched bool `json:"touched,omitempty"`
	// restarted reports whether the operation restarted the container engine.
	// +optional
	Restarted bool `json:"restarted,omitempty"`
	// result lists every task of the job once; if all succeeded, only done is set.
	Result OperationResult `json:"result"`
}

// OperationResult lists the tasks of a job by their outcome (contract statement 93).
type OperationResult struct {
	// done lists the tasks that succeeded.
	// +optional
	// +listType=atomic
	Done []string `json:"done,omitempty"`
	// fail lists the tasks that failed.
	// +optional
	// +listType=atomic
	Fail []string `json:"fail,omitempty"`
	// undo lists the tasks that did not finish, and those that were skipped or undone.
	// +optional
	// +listType=atomic
	Undo []string `json:"undo,omitempty"`
}
