// Package outcome defines the values of the metric label result: how an attempt ended.
package outcome

// Result is a value of label result, from a closed list.
type Result string

// Results.
const (
	// Success: the attempt had its effect.
	Success Result = "success"
	// Failure: the attempt returned an error.
	Failure Result = "failure"
	// Refused: a rule of the cluster, such as a PodDisruptionBudget, does not allow it now.
	Refused Result = "refused"
	// Gone: the object no longer existed.
	Gone Result = "gone"
	// Unfinished: the attempt was not completed.
	Unfinished Result = "unfinished"
)
