package main

import "slices"

// mutant is one seeded defect: in a function somewhere below a folder, what the pattern from
// matches becomes to. A method is named Type.method. How patterns are written is said in
// package pattern: a metavariable such as $limit stands for any code, whatever its name.
type mutant struct {
	name, says, folder, function, from, to string
}

// Folders.
const (
	updater  = "pkg/daemonupdater"
	sets     = "pkg/daemonset"
	pods     = "pkg/podreplace"
	tasks    = "pkg/upgradeplan"
	drain    = "pkg/drain"
	nodes    = "pkg/nodeupgrade"
	plugin   = "pkg/gcucli"
	api      = "pkg/upgradeapi"
	agent    = "pkg/ota"
	foretold = "pkg/preview"
)

// mutants are all of them.
var mutants = slices.Concat(ofRollouts, ofOperations, ofCallers)
