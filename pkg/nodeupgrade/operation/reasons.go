package operation

// Reasons of an operation and its tasks: a closed list.
const (
	// ReasonInProgress: nothing holds it.
	ReasonInProgress = "InProgress"
	// ReasonAwaitingSlot: it is prepared and not granted yet.
	ReasonAwaitingSlot = "AwaitingSlot"
	// ReasonBadOperation: the operation cannot be understood; nothing was touched.
	ReasonBadOperation = "BadOperation"
	// ReasonAborted: a person ended it.
	ReasonAborted = "Aborted"
	// ReasonWithdrawn: spec.operation was taken away.
	ReasonWithdrawn = "Withdrawn"
	// ReasonSuperseded: another operation is wanted.
	ReasonSuperseded = "Superseded"
	// ReasonTargetChanged: a DaemonSet has another newest revision by now.
	ReasonTargetChanged = "TargetChanged"
	// ReasonNodeReplaced: the Node object is not the one that was meant.
	ReasonNodeReplaced = "NodeReplaced"
	// ReasonNodeOffline: the node is not Ready; NodeLost: for too long.
	ReasonNodeOffline = "NodeOffline"
	ReasonNodeLost    = "NodeLost"
	// ReasonOperationDeadline: the whole took too long.
	ReasonOperationDeadline = "OperationDeadline"
	// ReasonPrecheckFailed: the node lacks something before it is touched.
	ReasonPrecheckFailed = "PrecheckFailed"
	// ReasonPrepullFailed: an image could not be pulled.
	ReasonPrepullFailed = "PrepullFailed"
	// ReasonCordonHeld: another operation has cordoned the node.
	ReasonCordonHeld = "CordonHeld"
	// ReasonDrainBlocked: the node does not get empty until somebody acts.
	ReasonDrainBlocked = "DrainBlocked"
	// ReasonDrainTimeout: the node did not become empty.
	ReasonDrainTimeout = "DrainTimeout"
	// ReasonDeviceInUse: a pod that uses the device does not go, or comes back.
	ReasonDeviceInUse = "DeviceInUse"
	// ReasonProgressDeadline: a new pod is not available in time.
	ReasonProgressDeadline = "ProgressDeadline"
	// ReasonCrashLoop: a new pod restarts again and again.
	ReasonCrashLoop = "CrashLoop"
	// ReasonRestartFailed: the runtime was not restarted, or not as wanted.
	ReasonRestartFailed = "RestartFailed"
	// ReasonLeftToAdministrator: the agent may not restart the runtime.
	ReasonLeftToAdministrator = "LeftToAdministrator"
	// ReasonVerifyFailed: evidence is missing at the deadline.
	ReasonVerifyFailed = "VerifyFailed"
	// ReasonSoakFailed: pods did not stay available.
	ReasonSoakFailed = "SoakFailed"
	// ReasonSucceeded: every task is done or was skipped.
	ReasonSucceeded = "Succeeded"
	// ReasonWindingUp: the node is being given back.
	ReasonWindingUp = "WindingUp"
)
