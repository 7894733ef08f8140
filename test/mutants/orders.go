package main

// ofOrders are defects in the operations that a rollout orders, grants and follows.
var ofOrders = []mutant{
	// What is prepared, and in which order.
	{"paused-in-the-way", "a paused group keeps its prepared operations", updater, "withdrawals",
		"$closed || $n.needsNoOperation() && $rest", "$n.needsNoOperation() && $rest"},
	{"healthy-ready-first", "a prepared healthy node blocks the preparation of nodes before it", updater, "preparation.goesBefore",
		"$others || $need == $healthy && $lNeed != $healthy", "$others"},
	{"stalled-in-the-way", "a node that cannot be prepared blocks the preparation of others", updater, "preparation.countAhead",
		`if $stale($Job) { continue }
		if !$Stalled { $*then }`,
		`if $stale($Job) { continue }
		if $Job != nil { $*then }`},
	{"pool-in-the-way", "a prepared node in an exhausted pool blocks the preparation in other pools", updater, "preparation.goesBefore",
		"$Pool == $pool || $refused[$lane].$reason != $ReasonPoolExhausted",
		`$Pool != "" || $refused[$lane].$reason != $ReasonPoolExhausted`},
	{"held-in-flight", "nodes kept cordoned block each other", updater, "facts.includeAvailability",
		"!$held && $isMoving($pod)", "$isMoving($pod)"},
	{"held-for-good", "a node kept cordoned at its targets gets no operation", updater, "group.factsOf",
		"$outdated, $replaceable, $heavy = true, true, true", "$heavy = $outdated"},
	{"no-backoff", "a deferred node is retried at once", updater, "facts.deferral",
		`case $Returned > 0 && $strategy != $OTA && $rested.After($now): $*then
		case $heavy && $Retry.After($now): $*body`,
		`case $Returned > 0 && $strategy != $OTA && $rested.After($now): $*then
		case false: $*body`},
	{"one-id-for-all", "operations of different nodes have the same id", updater, "draft.newOperation",
		"fmt.Sprintf($format, $*others, $hash, len($Ended))", "fmt.Sprintf($format, $*others, 0, len($Ended))"},

	// Grants and slots.
	{"driver-deleted", "the driver's pod is deleted on a node with workloads on it", updater, "fleetNode.nextPod",
		"if $needsOperation($node, $pod) { return nil }", "if false { return nil }"},
	{"unprepared-started", "a node gets its slot before its images are pulled", updater, "group.isPrepared",
		"$Ours && $Prepared && !$isStale($node)", "$Ours && !$isStale($node)"},
	{"stale-granted", "an operation for an earlier target is granted", updater, "group.isPrepared",
		"$Ours && $Prepared && !$isStale($node)", "$Ours && $Prepared"},
	{"slot-back-while-operating", "the slot of an operation is released before it has ended", updater, "settlement.settleOperation",
		"case $end == nil: $retarget(&$slot, $n); $keep(&$slot)", "case $end == nil: $retarget(&$slot, $n)"},
	{"done-and-behind", "a stale view restarts a finished operation", updater, "settlement.settleDone",
		"$n.$isFinished() || $Revision != $inRevision || $needsAnother($slot)",
		"$n.$isFinished() || $Revision != $inRevision || $n.heavy"},
	{"granted-again", "an ended operation is granted", updater, "Ordered",
		"$hasEnded($upgrade, $Operation) && (!$Abort || !$holds($upgrade, $Operation))",
		"false && (!$Abort || !$holds($upgrade, $Operation))"},
	{"grant-before-ledger", "a grant lacks the resourceVersion precondition", updater, "operationWriter.orderOne",
		"client.MergeFromWithOptions($before, client.MergeFromWithOptimisticLock{})",
		"client.MergeFromWithOptions($before)"},
	{"made-granted", "a recreated operation is granted by a possibly stale manager", updater, "operationWriter.orderOne",
		"$next.Abort = $order.$Abort", "$next.Granted, $next.Abort = $order.Grant, $order.$Abort"},
	{"held-nodes-free", "a node that is kept cordoned does not use up the budget", updater, "group.factsOf",
		"unavailable: $Ready && $Disturbed && $mine",
		"unavailable: false"},
	{"light-under-operation", "pods are deleted while an operation runs on the node", updater, "nextDeletions",
		`$others || $Operation != "" && $endOf($Operation, $Ended) == nil || $isAtWork()`,
		`$others || $Operation != "" && $endOf($Operation, $Ended) == nil`},
	{"heavy-and-lost", "a lost node that needs an operation releases its slot", updater, "settlement.settleAtOnce",
		"$heavy && $Ready && !$absent", "$heavy && !$absent"},

	// How they end.
	{"failed-operation-forgiven", "a failed operation does not count against the version", updater, "settlement.settleNotDone",
		"$reason := failureReasons[$outcome]",
		`$reason := failureReasons[$outcome]; if $outcome == Broken { $reason = "" }`},
	{"blames-nothing", "an operation that failed before the revision of the group changed does not count", updater, "describeOperations",
		"$end.Targets = $targetsOf($asked)", ""},
	{"blames-only-now", "a failure counts only if the group has the same revision", updater, "settlement.settleNotDone",
		"$reason != $none && len($ran) > 0 && $haveTargets($ran)", "$reason != $none && slot.Revision == s.in.Revision"},
	{"owner-not-woken", "a group without a strategy is not triggered when its operations end", updater, "Groups.addOwner",
		"$groups[$Group{$Kind: $kindGcuResource, $Name: $name}] = true", "_ = $name"},

	// Only the simulation of operations sees these.
	{"ends-unseen", "the end of an operation triggers no reconcile", updater, "changedByOperator",
		`$others ||
			!equality.Semantic.DeepEqual($before.Status.Operation, $after.Status.Operation) ||
			!equality.Semantic.DeepEqual($before.Status.History, $after.Status.History)`,
		"$others"},
	{"withdrawn-unlocked", "an operation other than the observed one is withdrawn", updater, "operationWriter.cancel",
		"client.MergeFromWithOptions($asked[$i], client.MergeFromWithOptimisticLock{})",
		"client.MergeFromWithOptions($asked[$i])"},
	{"slot-back-ungranted", "a slot is released because its grant was not observed, and another manager grants late", updater, "settlement.settleOperation",
		"case $end == nil: $s.$retarget(&$slot, $n); $s.$keep(&$slot)",
		`case $end == nil && n.Job != nil && !n.Job.Granted: $s.fleet.nodes.record(n, nil, nil)
		case $end == nil: $s.$retarget(&$slot, $n); $s.$keep(&$slot)`},
	{"operations-left", "a deleted group leaves its operations", updater, "steps.abandon",
		"_, $err := $cancel($ctx, $OperationKey($namespace))", "var $err error"},

	// Node agents of an earlier version.
	{"old-agent-ordered", "an operation is ordered that the node agent cannot carry out", updater, "facts.keptByPeople",
		"$f.heavy && !$atWork && $lacks != $none", "false"},
	{"scope-narrowed", "a prepared operation replaces what was left out since", updater, "group.changedScope",
		"$covered && !$wanted && $outdated && $alone || $wider", "$wider"},
	{"scope-widened", "a node is drained again for a heavy component that was outdated when its operation was granted", updater, "group.changedScope",
		"$covered && !$wanted && $outdated && $alone || $wider", "$covered && !$wanted && $outdated && $alone"},
	{"scope-of-granted", "an operation that runs is aborted because of a new limit", updater, "group.isStale",
		"!$Granted && $targets != nil && $rest", "$targets != nil && $rest"},
	{"scope-along", "an operation for a driver is made again and again while a light component is left out", updater, "group.changedScope",
		"$covered && !$wanted && $outdated && !$Along || $wider", "$covered && !$wanted && $outdated || $wider"},
	{"scope-of-removed", "a prepared operation replaces a component that was removed", updater, "group.isStale",
		"hasFormer($members, $targets) || $rest", "$rest"},
	{"old-agent-holds-wave", "a node with an old agent holds up its wave", updater, "nodeCounts.unfinished",
		"$left -= c.byPhase[$p]", "if $p != phaseAgentTooOld { $left -= c.byPhase[$p] }"},
	{"no-agent-wakes", "an upgrade of the node agent is not noticed", updater, "Groups.AskedFor",
		"$agent != nil && len($capabilities) > 0", "false"},
	{"silent-agent-can-nothing", "an agent that reports no capabilities counts as having none", updater, "AgentOf",
		"len(reported) > 0", "len(reported) >= 0"},
}
