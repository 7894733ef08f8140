// Package display turns the objects of the operator into the output of kubectl gcu. It is
// pure: the input is objects and the time, the output a documented value and its text.
//
//	StatusOf    a gr, its rollout, the nodes that need attention    status.go, rollout.go, trouble.go
//	OutcomeOf   is it done, in progress, or waiting for someone     outcome.go
//	NodesOf     every node of a gr, its state and why               nodes.go
//	HistoryOf   the kept specs, and what changed between them       history.go, change.go
//	WavesOf     which waves wait for an approval                    wave.go
//	PlanText    what an upgrade would do                            plan.go, limit.go
//
// The values are what -o json and -o yaml print, so their field names must not change. Text
// uses Table (table.go); the advice for each reason is in one place, advice.go.
package display
