package main

// ofRequests are defects in what a request on a node is for.
var ofRequests = []mutant{
	{"request-for-any-revision", "a request for a revision starts its node for another", updater, "Request.isFor",
		`$revision == "" || $revision == $target`, "true"},
	{"request-of-older-agent", "a request that names no revision starts nothing", updater, "Request.isFor",
		`$revision == "" || $revision == $target`, "$revision == $target"},
	{"started-request-dropped", "a node in flight stops when the revision changes", updater, "group.allows",
		"$Running || $isAsked($pod)", "$isAsked($pod)"},
	{"lost-slot-agreed", "a node that gave its slot back starts for another revision than it asked for", updater, "fleetNode.isStartable",
		"$slot != nil || $queued || !$isAgreed()", "$slot != nil || $queued"},
	{"revision-changed-unsaid", "a request for an earlier revision waits forever", updater, "Answers.isOvertaken",
		"$State != $InFlight || !$begun", "$State != $InFlight && !$begun && false"},
	{"revision-changed-under-slot", "a request is answered as overtaken while its pod may be deleted", updater, "Answers.isOvertaken",
		"$State != $InFlight || !$begun", "$State != $InFlight || !$begun || true"},
	{"revision-changed-unconfirmed", "a stale cache answers a request as overtaken", updater, "NewlyFinal",
		"$task.State != $Done && $task.Reason != $changed", "$task.State != $Done"},
}
