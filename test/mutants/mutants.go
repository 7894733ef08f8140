package main

import "slices"

// mutant is one seeded defect: in file, from becomes to.
type mutant struct {
	name, says, file, from, to string
}

const (
	plan     = "pkg/daemonupdater/rollout/plan.go"
	start    = "pkg/daemonupdater/rollout/start.go"
	node     = "pkg/daemonupdater/rollout/node.go"
	tally    = "pkg/daemonupdater/rollout/tally.go"
	lane     = "pkg/daemonupdater/rollout/lane.go"
	fleet    = "pkg/daemonupdater/rollout/fleet.go"
	queue    = "pkg/daemonupdater/rollout/queue.go"
	jobs     = "pkg/daemonupdater/rollout/operation.go"
	fence    = "pkg/daemonupdater/rollout/fence.go"
	waves    = "pkg/daemonupdater/rollout/waves.go"
	window   = "pkg/daemonupdater/rollout/window.go"
	updater  = "pkg/daemonupdater/"
	sets     = "pkg/daemonset/"
	tasks    = "pkg/upgradeplan/"
	drain    = "pkg/drain/"
	nodes    = "pkg/nodeupgrade/operation/"
	plugin   = "pkg/gcucli/"
	api      = "pkg/upgradeapi/"
	agent    = "pkg/ota/"
	door     = "pkg/ota/guard/"
	foretold = "pkg/daemonupdater/rollout/preview.go"
)

// mutants are all of them.
var mutants = slices.Concat(ofRollouts, ofOperations, ofCallers)
