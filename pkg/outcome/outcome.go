// Package outcome has the values of label result of all metrics: how something ended that was tried.
package outcome

// Result is a value of label result, from a closed list.
type Result string

// Results.
const (
	// Success: it did what it was to do.
	Success Result = "success"
	// Failure: it ended in an error.
	Failure Result = "failure"
	// Refused: a rule of the cluster did not allow it now, such as a PodDisruptionBudget.
	Refused Result = "refused"
	// Gone: what it was about did not exist any more.
	Gone Result = "gone"
	// Unfinished: it was not run to its end.
	Unfinished Result = "unfinished"
)
