package request

import (
	"errors"
	"fmt"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Reason is why a request was refused, one word.
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
	// ReasonNotNeeded: the condition PodNeedUpgrade is not True, or there is nothing to take back.
	ReasonNotNeeded Reason = "NotNeeded"
	// ReasonImageNotReady: the images of the newest revision are being pulled, or are
	// unknown.
	ReasonImageNotReady Reason = "ImageNotReady"
	// ReasonTooMany: too many requests are open.
	ReasonTooMany Reason = "TooMany"
	// ReasonNotRecorded: the journal could not be written.
	ReasonNotRecorded Reason = "NotRecorded"
	// ReasonDisconnected: the API server was unavailable.
	ReasonDisconnected Reason = "Disconnected"
	// ReasonNodeHeld: the node is excluded from upgrades until it is released.
	ReasonNodeHeld Reason = topsv1.ReasonNodeHeld

	// Reasons of the paths below /v1.

	// ReasonComponentMissing: this node has no component of this name.
	ReasonComponentMissing Reason = "ComponentMissing"
	// ReasonOperationMissing: no such operation, or it is no longer kept.
	ReasonOperationMissing Reason = "OperationMissing"
	// ReasonAmbiguous: more than one component has this name.
	ReasonAmbiguous Reason = "Ambiguous"
	// ReasonNotOTA: the DaemonSet's nodes are not upgraded by requests.
	ReasonNotOTA Reason = "NotOTA"
	// ReasonOperationRunning: another operation has not ended.
	ReasonOperationRunning Reason = "OperationRunning"
	// ReasonKeyReused: the idempotency key was used for another operation.
	ReasonKeyReused Reason = "KeyReused"
	// ReasonNotJSON: the body is not of type application/json.
	ReasonNotJSON Reason = "NotJSON"
	// ReasonNoPath, ReasonMethod and ReasonTooLarge are as in HTTP.
	ReasonNoPath   Reason = "NotFound"
	ReasonMethod   Reason = "MethodNotAllowed"
	ReasonTooLarge Reason = "TooLarge"

	// Further reasons of parts of an operation.
	ReasonRevisionChanged Reason = topsv1.ReasonRevisionChanged
	ReasonPodReplaced     Reason = "PodReplaced"
	ReasonWithdrawn       Reason = topsv1.ReasonWithdrawn
	ReasonRequestLost     Reason = "RequestLost"
)

// Refusal is the error for a request that was not accepted. Its message states what the
// caller can do.
type Refusal struct {
	Reason  Reason
	Message string
	// Operation that is in the way, or "".
	Operation string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Refuse returns a refusal with a message.
func Refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// PodMissing refuses because the pod does not exist.
func PodMissing(namespace, name string) *Refusal {
	return Refuse(ReasonPodMissing, "Pod %s/%s does not exist: GET /pods lists the pods of this node.", namespace, name)
}

// NotRecorded refuses because the journal could not be written.
func NotRecorded(err error) *Refusal {
	return Refuse(ReasonNotRecorded, "It could not be recorded on this node: %v. Nothing was done: make room or repair the disk, then repeat it.", err)
}

// NodeHeld refuses because the node is held.
func NodeHeld(hold *topsv1.NodeHold) *Refusal {
	why := ""
	if hold.Message != "" {
		why = fmt.Sprintf(" (%s)", hold.Message)
	}
	return Refuse(ReasonNodeHeld, "This node has been held since %s%s: release it first, with POST /v1/release or node-agent ota release.",
		hold.Since.UTC().Format(time.RFC3339), why)
}

// Disconnected refuses because the API server was unavailable, or as err does if it refuses itself. kept states whether the
// request was kept.
func Disconnected(err error, kept string) *Refusal {
	if refusal, is := errors.AsType[*Refusal](err); is {
		return refusal
	}
	return Refuse(ReasonDisconnected, "The API server cannot be used from this node: %v. %s", err, kept)
}

// Values of kept for Disconnected.
const (
	NotKept   = "Nothing was recorded: repeat it when the connection is back."
	Kept      = "Whether the operator received the request is not known: it is kept on this node, and will be submitted again when the connection is back."
	KeptSince = "The request was accepted before and is still kept: it will be submitted to the operator when the connection is back."
)
