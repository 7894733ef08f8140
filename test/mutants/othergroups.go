package main

// ofOtherGroups are defects in what groups do to each other: on one node, and with one name.
var ofOtherGroups = []mutant{
	// One node.
	{"others-prepare", "an operation that another group only prepares keeps a node from a light change", updater, "facts.phaseOf",
		"$Job.$isOfAnotherGroup() && ($Granted || $waits)", "$Job.$isOfAnotherGroup()"},
	{"others-quarantine", "a node that another group keeps out of service uses the budget", updater, "group.factsOf",
		"unavailable: $Ready && $Disturbed && $mine", "unavailable: $Ready && $Disturbed"},
	{"others-quarantine-charged", "a node that another group keeps out of service uses the budget if that keeps pods from it", updater, "facts.isCharged",
		"$f.unavailable && !$held", "f.unavailable"},
	{"taken-down-forgotten", "a node that this group took down gives its slot back to another group's operation", updater, "Node.yields",
		"$n.Ready && $busy && ($serves || $kept)", "$n.Ready && $busy"},
	{"others-blamed", "a node fails while another group works on it", updater, "slotReview.keepUntilDeadline",
		"!$n.Ready || !$n.$isBusy()", "true"},
	{"two-groups-one-node", "a node with another group's operation is started", updater, "facts.phaseOf",
		"$Job.$isOfAnotherGroup() && $working", "false"},
	{"grant-over-others", "an operation replaces another group's", updater, "isReserved",
		"$theirs && !$replaced || $disturbed && !$Held", "$theirs && false || $disturbed && !$Held"},
	{"prepared-again", "an operation that the cache does not show yet is prepared once more", updater, "isReserved",
		"!$change.Grant && !$change.Abort", "false"},
	{"granted-replaced", "an operation that was granted meanwhile is replaced by another group's", updater, "replaced",
		"$same && !$disturbed", "$same"},
	{"busy-for-good", "a group that does not grant its operations keeps their nodes from others", updater, "facts.phaseOf",
		"$f.heavy && !$maySupersede($g, $Job, $now)", "$f.heavy"},
	{"others-not-woken", "other groups are not triggered when a node is free again", updater, "Groups.OfNodeUpgrade",
		"for _, $g := range $w.with($ctx, $dependOnNodes) { $groups[$g] = true }", ""},

	// One name.
	{"namesake-canceled", "a DaemonSet that is gone cancels the operations of the gr of its name", updater, "Group.OperationKey",
		"if $g.$Kind != $kindGcuResource { return $none }", ""},
	{"namesake-ledger", "a group takes the ledger of another group of its name as its own", updater, "State.TakeRollout",
		"$found.$BelongsTo($kind, $name)", "true"},
	{"namesake-again-and-again", "every retry of a group whose name is taken sends an event", updater, "ledgerStore.refuse",
		"!$said || $by != $s.TakenBy.UID", "!$said || $by != $s.TakenBy.UID || true"},
	{"namesake-free", "a name that is taken again is not reported", updater, "groupReader.read",
		"delete($taken, $g)", ""},
	{"namesake-silent", "a group whose name is taken goes on without a word", updater, "groupReader.read",
		"if $taken := $NameTaken(); $taken != nil { return $none, $err }", ""},
	{"replaced-without-room", "two groups that have no room replace each other's operations for good", updater, "preparation.request",
		`$others && $full != ""`, `$others && $full == "never"`},
}
