package main

// ofProbation are versions that kill their nodes.
var ofProbation = []mutant{
	{"no-probation", "nodes start whatever those before them prove", updater, "budgets.refuse",
		`if $why := $b.probation.refuse(); $why != "" { $*then }`, `if $why := ""; $why != "" { $*then }`},
	{"probation-ends-with-the-slot", "a node is proven when its pods are available", updater, "probationOf",
		"$d.fleet.onProbation.Len()", "0"},
	{"dead-nodes-make-room", "a node that was lost on probation makes room for another", updater, "probationOf",
		"$left > 0 && $d.suspects($n)", "$left > time.Hour"},
	{"all-proven-at-once", "every node that was started counts as proven", updater, "probation.refuse",
		"2*$p.unproven < $p.limit+$p.started", "$p.unproven < $p.limit+$p.started"},
	{"slow-start-never-grows", "proven nodes do not raise the limit", updater, "probation.refuse",
		"2*$p.unproven < $p.limit+$p.started", "$p.unproven < $p.limit"},
	{"heartbeat-before-pod", "a Lease renewed before the pod was available proves the node", updater, "facts.includeProbation",
		"$node.Renewed.Before($at)", "$node.Renewed.IsZero()"},
	{"probation-for-ever", "a node without a Lease stays on probation", updater, "facts.includeProbation",
		"$until.After($now)", "true"},
	{"heartbeats-unread", "Leases are never read", updater, "fleetReader.readRenewals",
		"!$f.awaitsRenewals", "$f != nil"},
	{"old-targets-proven", "the nodes of the version before count as proven", updater, "draftOf",
		"$d.ledger.Touched, $d.ledger.Started = $in.Ledger.InFlight(), 0", "$d.ledger.Touched = $in.Ledger.InFlight()"},
	{"probation-by-kubelet-clock", "probation ends by the clock of the kubelet", sets, "Sightings.AvailableSince",
		"if $s == nil { return $written, $written }", "if !$written.IsZero() { return $written, $written }"},
	{"lapses-ignored", "a version that kills its nodes after the update is not stopped", updater, "facts.suspectOf",
		"$phase != $updated", "$phase == $updated"},
	{"lapses-for-ever", "a node that joined long after the rollout and went offline halts it", updater, "draft.suspects",
		"$others && !$made.After($lastStart.Add($Progress))", "$others"},
}
