package main

// ofTheGate are defects in what is done about pods that wait at the gate.
var ofTheGate = []mutant{
	{"gate-open-in-a-rollout", "a new target is settled before every node has it", updater, "Settled",
		"$behind || !$new && !$was", "$behind || $new && $was"},
	{"gate-open-to-all", "a pod at the gate is released on a node without a slot", updater, "Decide",
		"case $f.Granted && $rest: $*then", "case $f.Granted || $f.Target != \"\": $*then"},
	{"gate-forgets-the-node", "a node gets the last known good revision rather than its own", updater, "Memory.Note",
		"lastHash{daemonset.RevisionHash($pod), $ready}", "lastHash{\"\", $ready}"},
	{"gate-keeps-what-never-worked", "a node gets a revision back with which it was never ready", updater, "Memory.Note",
		"$ready || !$was.ready", "$ready || true || !$was.ready"},
	{"gate-without-being-asked", "a manager without --gate stores what is settled", updater, "Settle",
		"case !$gate.Active(), $*rest: $*then", "case $gate == gating.NotServed, $*rest: $*then"},
	{"gate-quietly-missing", "an API server without the policy of the gate is not reported", "cmd/manager", "gate.begin",
		"$g.becomes(gating.NotServed)", "$g.mode.Store(gating.NotServed)"},
	{"gate-quietly-removed", "config/gate that is deleted without its rights is not noticed", "cmd/manager", "gate.look",
		"case apierrors.IsNotFound($err), apierrors.IsForbidden($err): $*then", "case apierrors.IsNotFound($err): $*then"},
	{"gate-missing-without-an-event", "no event says that the gate is not available", updater, "Events",
		"changed($before, $after, topsv1.RolloutGated)", "changed($before, $before, topsv1.RolloutGated)"},
	{"gate-remembers-what-waits", "a pod that never ran counts as what its node had", updater, "Memory.Note",
		"$pod == nil || $pod.Spec.NodeName == \"\"", "$pod == nil"},
	{"gate-with-any-account", "the pods of accounts with rights are gated, which admission lets nobody create", updater, "IsGateable",
		"return $onDelete && $known", "return $onDelete"},
	{"gate-on-a-closed-device", "a pod is restored on a node whose device is closed for an operation", updater, "Waiting.isClosed",
		"return !$create || $closed", "return !$create || $closed && false"},
}
