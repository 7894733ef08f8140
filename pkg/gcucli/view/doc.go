// Package view turns the objects of the operator into what kubectl gcu shows. It
// is pure: objects and the time in, a documented value out, and text made of that.
//
//	StatusOf    a gr, its rollout, the nodes that need a look    status.go, trouble.go
//	OutcomeOf   is it done, at work, or does it wait for whom    outcome.go
//	NodesOf     every node of a gr, its state and why            nodes.go
//	HistoryOf   the kept specs, and what changed between them    history.go, change.go
//	WavesOf     which waves wait for an approval                 waves.go
//
// The values are what -o json and -o yaml print, so their field names stay. Text
// is a Table; what helps against a reason is said in one place, advice.go.
package view
