package main

// ofReports are defects in the report of an upgrade (kubectl gcu report).
var ofReports = []mutant{
	{"way-back-left-out", "the report of an upgrade that was rolled back has nothing of the way back", plugin, "Upgrade.covers",
		`u.back != "" && revision == u.back`, "false"},
	{"untouched-missing", "a report says that work is not recorded any more on nodes that had the revision before", "pkg/gcucli/audit", "gone",
		"hadBefore($f, $u, $revision)", "map[string]bool{}"},
	{"had-another-revision", "a report counts nodes as never touched whose last operation was for another revision", plugin, "hadBefore",
		"$h.Revision == $revision && $done", "$done"},
	{"retried-shown-as-failed", "a report says that an operation failed while it runs again", plugin, "operationsOn",
		"ended = o.EndTime != nil", "ended = true"},
	{"first-attempt-forgotten", "a report is silent about the attempt that failed, once an operation that was resumed has ended", plugin, "operationsOn",
		"!first.IsZero() && $before", "false && $before"},
	{"preparation-as-attempt", "a report says of an operation that waited for its slot that it was resumed", plugin, "firstStart",
		"t.Action == upgradeplan.ActionPrepull", "t.Action == upgradeplan.ActionSoak"},
	{"advanced-forgotten", "a node that is skipped by time alone does not get its condition when the pass fails", updater, "Nodes.Decided",
		"for _, $name := range $d.Advanced { $*then }", ""},
	{"cleared-failure-forgotten", "a node whose failure a person cleared does not get its condition", updater, "Nodes.Decided",
		"!fails", "!fails && false"},
	{"decided-forgotten", "what a decision changes about a node's conditions is not reported", updater, "Fleet.Decide",
		"$f.Reported.Decided($*rest)", ""},
}
