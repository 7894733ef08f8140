package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutEvent is what an entry of the record of a rollout is about. The list is closed, but the CRD does not enforce
// it: an entry of a later version must not keep an earlier one from writing its ledger, which is in the same status.
type RolloutEvent string

const (
	// RecordStarted means that the group has another target. The subject is the revision of the gr's spec, if it has one.
	RecordStarted RolloutEvent = "Started"
	// RecordLimited means that the target is the same, but the nodes, the components or the plan have changed.
	RecordLimited RolloutEvent = "Limited"
	// RecordPaused means that annotation paused was set.
	RecordPaused RolloutEvent = "Paused"
	// RecordUnpaused means that annotation paused was removed.
	RecordUnpaused RolloutEvent = "Unpaused"
	// RecordAwaitingApproval means that nodes wait for the approval of the subject, a wave or a batch of a plan.
	RecordAwaitingApproval RolloutEvent = "AwaitingApproval"
	// RecordApproved means that the subject, a wave or batch that waited, was approved.
	RecordApproved RolloutEvent = "Approved"
	// RecordWaveComplete means that every reachable node of the subject, a wave or a batch, was updated.
	RecordWaveComplete RolloutEvent = "WaveComplete"
	// RecordHeld means that holds exclude more nodes that are not updated.
	RecordHeld RolloutEvent = "Held"
	// RecordReleased means that holds exclude fewer nodes.
	RecordReleased RolloutEvent = "Released"
	// RecordNodesFailed means that the nodes of the subject failed.
	RecordNodesFailed RolloutEvent = "NodesFailed"
	// RecordHalted means that too many nodes failed.
	RecordHalted RolloutEvent = "Halted"
	// RecordResumed means that the failures were cleared.
	RecordResumed RolloutEvent = "Resumed"
	// RecordRollingBack means that the rollback of the policy has begun. The subject is the revision that it goes back to.
	RecordRollingBack RolloutEvent = "RollingBack"
	// RecordRolledBack means that every reachable node is back.
	RecordRolledBack RolloutEvent = "RolledBack"
	// RecordComplete means that every reachable node was updated. The message says how many nodes were offline; none were if there is no message.
	RecordComplete RolloutEvent = "Complete"
)

// RolloutRecordEntry is something that happened in a rollout.
type RolloutRecordEntry struct {
	// time at which the operator saw it.
	Time metav1.Time `json:"time"`
	// event that happened.
	Event RolloutEvent `json:"event"`
	// revision of the rollout group that it happened at.
	// +optional
	Revision string `json:"revision,omitempty"`
	// subject is what it happened to, such as a wave or nodes: see the event.
	// +optional
	Subject string `json:"subject,omitempty"`
	// limit of the upgrade that was started or limited, from status.limitedTo; for a plan, plan= and its
	// name. Absent for none.
	// +optional
	Limit string `json:"limit,omitempty"`
	// nodes is the number of nodes that it concerns: all nodes of the group for a start, those held from then on for
	// holds, those that failed for failures, those updated for an end.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// by is the user who asked for it, from annotation topsops.enflame.com/asked-by; absent if no one
	// did, or if that is not known.
	// +optional
	By string `json:"by,omitempty"`
	// askedTime is the time in that annotation.
	// +optional
	AskedTime *metav1.Time `json:"askedTime,omitempty"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// pending is true until its notification has been delivered to the webhook of --notify-url.
	// +optional
	Pending bool `json:"pending,omitempty"`
}
