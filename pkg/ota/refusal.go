package ota

import "fmt"

// Reason is why a request was refused, in one word.
type Reason string

// Reasons of a Refusal.
const (
	// ReasonMalformed: the namespace or the pod is not a Kubernetes name.
	ReasonMalformed Reason = "Malformed"
	// ReasonPodMissing: there is no such pod.
	ReasonPodMissing Reason = "PodMissing"
	// ReasonOtherNode: the pod does not run on this node.
	ReasonOtherNode Reason = "OtherNode"
	// ReasonTerminating: the pod is being deleted already.
	ReasonTerminating Reason = "Terminating"
	// ReasonNotDaemonSet: no DaemonSet controls the pod.
	ReasonNotDaemonSet Reason = "NotDaemonSet"
	// ReasonNotNeeded: the condition PodNeedUpgrade is not True.
	ReasonNotNeeded Reason = "NotNeeded"
	// ReasonTooMany: too many requests are open.
	ReasonTooMany Reason = "TooMany"
	// ReasonNotRecorded: the journal could not be written.
	ReasonNotRecorded Reason = "NotRecorded"
	// ReasonDisconnected: the API server could not be used.
	ReasonDisconnected Reason = "Disconnected"
)

// Refusal is the error of a request that was not accepted. Its message says
// what the caller can do.
type Refusal struct {
	Reason  Reason
	Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// disconnected refuses because the API server could not be used. kept says what
// became of the wish.
func disconnected(err error, kept string) *Refusal {
	return refuse(ReasonDisconnected, "The API server cannot be used from this node: %v. %s", err, kept)
}

// What became of the wish of a caller who is refused as disconnected.
const (
	wishNotKept   = "Nothing was recorded: repeat it when the connection is back."
	wishKeptSince = "The request was accepted before and is still kept: it will be shown to the operator when the connection is back."
)
