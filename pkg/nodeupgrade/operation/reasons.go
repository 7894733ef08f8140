package operation

import topsv1 "github.com/topsops/gcu-operator/api/v1"

// Reasons of an operation and its tasks: a closed list.
const (
	// ReasonInProgress: nothing blocks it.
	ReasonInProgress = topsv1.ReasonInProgress
	// ReasonAwaitingSlot: it is prepared and not granted yet.
	ReasonAwaitingSlot = "AwaitingSlot"
	// ReasonBadOperation: the operation is invalid; nothing was touched.
	ReasonBadOperation = "BadOperation"
	// ReasonAborted: it was aborted, by a person or because its upgrade ended.
	ReasonAborted = "Aborted"
	// ReasonWithdrawn: spec.operation was removed, or it was aborted before its grant, which says
	// nothing about its revisions.
	ReasonWithdrawn = topsv1.ReasonWithdrawn
	// ReasonSuperseded: another operation is wanted.
	ReasonSuperseded = topsv1.ReasonSuperseded
	// ReasonTargetChanged: the newest revision of a DaemonSet is no longer the target.
	ReasonTargetChanged = "TargetChanged"
	// ReasonNodeReplaced: the UID of the Node is not that of the operation.
	ReasonNodeReplaced = "NodeReplaced"
	// ReasonNodeOffline: the node is not Ready; ReasonNodeLost: for too long.
	ReasonNodeOffline = topsv1.ReasonNodeOffline
	ReasonNodeLost    = topsv1.ReasonNodeLost
	// ReasonOperationDeadline: the operation as a whole took too long.
	ReasonOperationDeadline = "OperationDeadline"
	// ReasonPrecheckFailed: the node does not meet the conditions for an upgrade.
	ReasonPrecheckFailed = "PrecheckFailed"
	// ReasonPrepullFailed: an image could not be pulled.
	ReasonPrepullFailed = topsv1.ReasonPrepullFailed
	// ReasonCordonHeld: another operation has cordoned the node, or the API server, or a webhook that it calls, denies the cordon.
	ReasonCordonHeld = "CordonHeld"
	// ReasonDrainBlocked: the drain cannot finish without action by a person.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonDrainTimeout: the node is not empty, or was not in time.
	ReasonDrainTimeout = "DrainTimeout"
	// ReasonCardsInUse: a pod uses a card of the node, and there is no request for the operation.
	ReasonCardsInUse = "CardsInUse"
	// ReasonDeviceInUse: a pod that uses the device does not terminate, or returns, or another
	// process has it open.
	ReasonDeviceInUse = "DeviceInUse"
	// ReasonNoSuccessor: the node accepts no new pod, so the pod is not deleted.
	ReasonNoSuccessor = topsv1.ReasonNoSuccessor
	// ReasonDeletionDenied: the API server, or a webhook that it calls, denies the deletion of a pod.
	ReasonDeletionDenied = topsv1.ReasonDeletionDenied
	// ReasonProgressDeadline: a new pod did not become available in time.
	ReasonProgressDeadline = "ProgressDeadline"
	// ReasonCrashLoop: a new pod is crash-looping.
	ReasonCrashLoop = "CrashLoop"
	// ReasonRestartFailed: the runtime was not restarted, or without the wanted result.
	ReasonRestartFailed = topsv1.ReasonRestartFailed
	// ReasonLeftToAdministrator: the agent is not allowed to restart the runtime.
	ReasonLeftToAdministrator = topsv1.ReasonLeftToAdministrator
	// ReasonVerifyFailed: evidence was still missing at the deadline.
	ReasonVerifyFailed = "VerifyFailed"
	// ReasonSoakFailed: pods did not stay available.
	ReasonSoakFailed = "SoakFailed"
	// ReasonSucceeded: every task is done or was skipped.
	ReasonSucceeded = "Succeeded"
)
