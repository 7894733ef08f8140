package v1

// Reasons of conditions, events, nodes, operations and requests that more than one package
// reports or reads. Any other reason is declared in the package that reports it.
const (
	// ReasonComplete: nothing is left to do.
	ReasonComplete = "Complete"
	// ReasonPaused: the annotation paused keeps a rollout from starting nodes.
	ReasonPaused = "Paused"
	// ReasonHalted: too many nodes failed, so no other node starts until a user acts.
	ReasonHalted = "Halted"
	// ReasonNodesFailed: failed nodes use up the budget.
	ReasonNodesFailed = "NodesFailed"
	// ReasonNodesPinned: nodes are kept at an earlier revision, and nothing else is left to do.
	ReasonNodesPinned = "NodesPinned"
	// ReasonAwaitingRequests: nodes are upgraded only after a request on them (OTA).
	ReasonAwaitingRequests = "AwaitingRequests"
	// ReasonAwaitingGlobalTask: a global task of the plan is not done yet.
	ReasonAwaitingGlobalTask = "AwaitingGlobalTask"
	// ReasonGlobalTaskFailed: a global task failed or cannot start; a user has to act.
	ReasonGlobalTaskFailed = "GlobalTaskFailed"
	// ReasonRollingBack: an earlier revision is being restored.
	ReasonRollingBack = "RollingBack"
	// ReasonRevisionRejected: nodes failed at the revision, and an earlier one is deployed in its place
	// until there is a newer one or a user resumes the rollout.
	ReasonRevisionRejected = "RevisionRejected"
	// ReasonRolledBack: an earlier revision was restored.
	ReasonRolledBack = "RolledBack"
	// ReasonSuperseded: a newer spec or operation takes its place.
	ReasonSuperseded = "Superseded"
	// ReasonNodeHeld: a hold excludes the node from upgrades.
	ReasonNodeHeld = "NodeHeld"
	// ReasonNodeOffline: the node is not Ready.
	ReasonNodeOffline = "NodeOffline"
	// ReasonNodeLost: the node has not been Ready for too long.
	ReasonNodeLost = "NodeLost"
	// ReasonNoSuccessor: the node accepts no new pod, so the old one is not deleted.
	ReasonNoSuccessor = "NoSuccessor"
	// ReasonDeletionDenied: the API server, or a webhook that it calls, denies the deletion of a pod.
	ReasonDeletionDenied = "DeletionDenied"
	// ReasonPrepullFailed: an image cannot be pulled before the node is touched.
	ReasonPrepullFailed = "PrepullFailed"
	// ReasonLeftToAdministrator: an administrator has to restart the container runtime.
	ReasonLeftToAdministrator = "LeftToAdministrator"
	// ReasonInProgress: work has begun, and nothing blocks it.
	ReasonInProgress = "InProgress"
	// ReasonRestarted: the container runtime was restarted.
	ReasonRestarted = "Restarted"
	// ReasonRestartFailed: the container runtime was not restarted, or the restart did not have the wanted result.
	ReasonRestartFailed = "RestartFailed"
	// ReasonRevisionChanged: the requested revision is no longer the newest.
	ReasonRevisionChanged = "RevisionChanged"
	// ReasonUndone: a person brought back the previous revision.
	ReasonUndone = "Undone"
	// ReasonWithdrawn: a request or an operation was canceled before it touched the node.
	ReasonWithdrawn = "Withdrawn"
)
