package v1

// Condition types that tools which follow kstatus, such as Flux and Helm 4, know. At most one of
// them is in the conditions of an object, and only while it is True.
const (
	// ConditionReconciling means that the cluster does not match the spec yet. Under strategy OTA it matches
	// once every node has been offered the newest revision.
	ConditionReconciling = "Reconciling"
	// ConditionStalled means that nothing changes until a user acts.
	ConditionStalled = "Stalled"
)

// PolicyAccepted is the condition type of an UpgradePolicy that is True when the policy is
// valid. False stops the rollouts that name it; the message says what to change.
const PolicyAccepted = "Accepted"
