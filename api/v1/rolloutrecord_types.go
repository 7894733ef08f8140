package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutEvent is what an entry of the record of a rollout is about. A closed list, which the CRD does not enforce: an
// entry of a later version must not keep an earlier one from writing its ledger, which is in the same status.
type RolloutEvent string

const (
	// RecordStarted is that the group has another target. The subject is the revision of the gr's spec, if it has one.
	RecordStarted RolloutEvent = "Started"
	// RecordLimited is that the same target is for other nodes or components, or by another plan.
	RecordLimited RolloutEvent = "Limited"
	// RecordPaused is that annotation paused was set.
	RecordPaused RolloutEvent = "Paused"
	// RecordUnpaused is that it was removed.
	RecordUnpaused RolloutEvent = "Unpaused"
	// RecordAwaitingApproval is that nodes wait for the approval of the subject, a wave or a batch of a plan.
	RecordAwaitingApproval RolloutEvent = "AwaitingApproval"
	// RecordApproved is that the subject, a wave or batch that waited, was approved.
	RecordApproved RolloutEvent = "Approved"
	// RecordWaveComplete is that every reachable node of the subject, a wave or a batch, was updated.
	RecordWaveComplete RolloutEvent = "WaveComplete"
	// RecordHeld is that holds exclude more nodes that are not updated.
	RecordHeld RolloutEvent = "Held"
	// RecordReleased is that holds exclude fewer.
	RecordReleased RolloutEvent = "Released"
	// RecordNodesFailed is that the nodes of the subject failed.
	RecordNodesFailed RolloutEvent = "NodesFailed"
	// RecordHalted is that too many nodes failed.
	RecordHalted RolloutEvent = "Halted"
	// RecordResumed is that the failures were cleared.
	RecordResumed RolloutEvent = "Resumed"
	// RecordRollingBack is that the rollback of the policy began. The subject is the revision that it goes back to.
	RecordRollingBack RolloutEvent = "RollingBack"
	// RecordRolledBack is that every reachable node is back.
	RecordRolledBack RolloutEvent = "RolledBack"
	// RecordComplete is that every reachable node was updated. Its message says how many were offline; without one none was.
	RecordComplete RolloutEvent = "Complete"
)

// RolloutRecordEntry is something that happened in a rollout.
type RolloutRecordEntry struct {
	// time when the operator saw it.
	Time metav1.Time `json:"time"`
	// event that happened.
	Event RolloutEvent `json:"event"`
	// revision of the rollout group that it happened at.
	// +optional
	Revision string `json:"revision,omitempty"`
	// subject is what it happened to, such as a wave or nodes: see the event.
	// +optional
	Subject string `json:"subject,omitempty"`
	// limit of the upgrade that was started or limited, from status.limitedTo; of a plan plan= and its
	// name. Absent for none.
	// +optional
	Limit string `json:"limit,omitempty"`
	// nodes is how many it concerns: of a start all of the group, of holds those held from then on, of
	// failures those that failed, of an end those updated.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// by is the user who asked for it, by annotation topsops.enflame.com/asked-by; absent if nobody
	// did, or if it is not known.
	// +optional
	By string `json:"by,omitempty"`
	// askedTime is the time in that annotation.
	// +optional
	AskedTime *metav1.Time `json:"askedTime,omitempty"`
	// message is the explanation.
	// +optional
	Message string `json:"message,omitempty"`
	// pending is true until the notification of it was delivered, to the webhook of --notify-url.
	// +optional
	Pending bool `json:"pending,omitempty"`
}
