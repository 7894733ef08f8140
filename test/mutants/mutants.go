package main

import "slices"

// mutant is one seeded defect: in a function in or below a folder, the code that matches
// pattern from is replaced by to. A method is named Type.method. Package pattern
// documents patterns: a metavariable such as $limit matches any code, whatever its name.
type mutant struct {
	name, says, folder, function, from, to string
}

// Folders.
const (
	updater   = "pkg/daemonupdater"
	apiClock  = "pkg/apiclock"
	budget    = "pkg/agentbudget"
	sets      = "pkg/daemonset"
	pods      = "pkg/podreplace"
	denials   = "pkg/denial"
	tasks     = "pkg/upgradeplan"
	drain     = "pkg/drain"
	nodes     = "pkg/nodeupgrade"
	plugin    = "pkg/gcucli"
	api       = "pkg/upgradeapi"
	agent     = "pkg/ota"
	foretold  = "pkg/preview"
	served    = "pkg/servedschema"
	deploys   = "pkg/gcuresource"
	owned     = "pkg/ownership"
	hosts     = "pkg/hostagent"
	hostTasks = "pkg/hosttasks"
	agentsAPI = "pkg/nodeapi"
	journals  = "pkg/journal"
	certs     = "pkg/servingcert"
	connected = "pkg/connections"
	programs  = "cmd"
	cached    = "pkg/transform"
)

// mutants are all seeded defects.
var mutants = slices.Concat(ofRollouts, ofFences, ofPolicies, ofProbation, ofSizes, ofDenials, ofOtherGroups, ofNodeOperations, ofRequests, ofOperations, ofDrains, ofRestarts, ofCallers, ofReports, ofClocks, ofResources, ofRestored, ofHosts, ofPrograms, ofPlainText, ofLeaving, ofPlans, ofVersions, ofTheGate, ofPrepulls, ofTheRESTAPI)
