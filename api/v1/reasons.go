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
	// ReasonAwaitingGlobalTask: a task of the plan that belongs to no node is not done yet.
	ReasonAwaitingGlobalTask = "AwaitingGlobalTask"
	// ReasonGlobalTaskFailed: such a task failed, or cannot start, and waits for a user.
	ReasonGlobalTaskFailed = "GlobalTaskFailed"
	// ReasonRollingBack: an earlier revision is being restored.
	ReasonRollingBack = "RollingBack"
	// ReasonRevisionRejected: nodes failed at the revision, and an earlier one is deployed in its place
	// until another comes or a user resumes.
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
	// ReasonDeletionDenied: the API server, or a webhook that it calls, refuses to delete a pod.
	ReasonDeletionDenied = "DeletionDenied"
	// ReasonPrepullFailed: an image cannot be pulled before the node is touched.
	ReasonPrepullFailed = "PrepullFailed"
	// ReasonLeftToAdministrator: an administrator has to restart the container runtime.
	ReasonLeftToAdministrator = "LeftToAdministrator"
	// ReasonInProgress: it has begun, and nothing blocks it.
	ReasonInProgress = "InProgress"
	// ReasonRestarted: the container runtime was restarted.
	ReasonRestarted = "Restarted"
	// ReasonRestartFailed: the container runtime was not restarted, or without the wanted result.
	ReasonRestartFailed = "RestartFailed"
	// ReasonRevisionChanged: the requested revision is not the newest any more.
	ReasonRevisionChanged = "RevisionChanged"
	// ReasonUndone: the revision before was brought back because a person asked for it.
	ReasonUndone = "Undone"
	// ReasonWithdrawn: a request or an operation was canceled before it touched the node.
	ReasonWithdrawn = "Withdrawn"
)
