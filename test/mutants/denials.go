package main

// ofDenials are defects in what becomes of a pod whose deletion or fence the API server denies.
var ofDenials = []mutant{
	{"denied-fails", "a node whose pod may not be deleted counts as failed", updater, "failureOf",
		"if $n.available || $denied { $*then }", "if $n.available { $*then }"},
	{"denied-though-offline", "an offline node waits for a deletion that was denied", updater, "fleetNode.isDenied",
		"$n.Ready && $n.Denied != nil", "$n.Denied != nil"},
	{"denied-first", "a node whose pod may not be deleted delays others at each retry", updater, "priority.compare",
		"cmp.Compare($p.lastResort(), $other.lastResort())", "0"},
	{"denied-keeps-slot", "a pod that may not be deleted costs a slot forever", updater, "fleetNode.isRefused",
		"return $refused", "return false"},
	{"fence-again-and-again", "every pass retries a denied fence", updater, "podDeleter.fence",
		"!$fences.IsDue($UID, $Now)", "false"},
	{"fence-silent", "nothing says that a fence was denied", updater, "fleetNode.progress",
		"$n.fencing && $Unfenced != nil", "false"},
	{"operation-denied-fails", "an operation whose pod may not be deleted counts against the version", nodes, "replace.deadline",
		"case $successor, ReasonDeletionDenied: $*then", "case $successor: $*then"},
	{"operation-denial-forgotten", "a deletion that was denied in an operation is tried again at once", nodes, "changes.onPod",
		"$Now.Before($denied.Retry)", "false"},
	{"operation-denial-unnoticed", "a denial of an operation is an error of the pass, and nothing says so", nodes, "effects.deletePod",
		"podreplace.IsDenied($err) || $internal", "$internal"},
	{"past-retries", "a retry that is not needed any more is planned for good", updater, "Attempts.NextRetry",
		"max($left, 0)", "max($left, replan)"},
}
