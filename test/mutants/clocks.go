package main

// ofClocks are times of different clocks that are compared.
var ofClocks = []mutant{
	{"kubelet-clock-trusted", "a state lasts since what another clock says", sets, "StateTimes.Since",
		"if $s == nil { $*then }", `if key != "" { $*then }`},
	{"restart-makes-new", "a manager that starts takes every state for a new one", sets, "StateTimes.Since",
		"[]time.Time{$written.Add(MaxSkew), $now}", "[]time.Time{$now}"},
	{"changes-unseen", "a state that begins again is as old as before", sets, "StateTimes.Since",
		"$known == nil || !$known.written.Equal($written)", "$known == nil"},
	{"rollout-trusts-kubelets", "minReadySeconds of a rollout count by the clock of the kubelet", updater, "Member.Pod",
		"$seen.Availability($pod, $least, $now)", "daemonset.Availability($pod, $least, $now)"},
	{"rollout-trusts-nodes", "a node is Ready since what its kubelet says", updater, "State.RolloutNode",
		"$n.Ready, $n.ReadySince = $s.StateTimes.NodeReady($node, $now)", "$n.Ready, _ = $s.StateTimes.NodeReady($node, $now); $n.ReadySince = written.Time"},
	{"crash-loop-by-clock", "a crash loop is of the slot by the manager's clock", updater, "Slot.isNew",
		"$pod.Created.After($s.Newest)", "!$pod.Created.Before($s.Since)"},
	{"slot-forgets-pods", "a slot does not know the pods that its node had", updater, "Slot.restart",
		"$s.Newest = later($s.Newest, $created)", "_ = later($s.Newest, $created)"},
	{"request-by-clock", "a request starts a failed node again by the node's clock", updater, "fleetNode.isStartable",
		"$n.hasRequestAfter($n.failure.Requested)", "$n.hasRequestAfter($n.failure.Since)"},
	{"answer-by-clock", "a request fails with its node by the node's clock", updater, "Answers.requestedSince",
		"observed.RequestedAt($request, $now).After($a.Decision.Ledger.Failures[$i].Requested)", "observed.RequestedAt($request, $now).After($a.Decision.Ledger.Failures[$i].Since)"},
	{"silence-by-clock", "a node agent whose clock is behind is silent", nodes, "HostSince",
		`$seen.Since($key, $upgrade.Status.Host.Time.Time, $now)`, `(*daemonset.StateTimes)(nil).Since($key, $upgrade.Status.Host.Time.Time, $now)`},
	{"missing-is-urgent", "a node starts before its wave when its pod is missing for a moment", updater, "State.RolloutNode",
		"$p.NotReadySince = $missing", "_ = $missing"},
	{"missing-remembered", "a pod that is missing again is missing since it was first missing", sets, "StateTimes.MissingSince",
		"delete($s.seen, $key)", "_ = key"},
}
