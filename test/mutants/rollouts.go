package main

// ofRollouts are defects in what nodes are started, and what is said of them.
var ofRollouts = []mutant{
	// Budgets.
	{"budget-off-by-one", "one node more than max-unavailable", updater, "planner.unaffordable",
		"if $all >= $limit { $*then }", "if $all > $limit { $*then }"},
	{"broken-nodes-unlimited", "unavailable nodes are replaced outside of the budget", updater, "planner.unaffordable",
		"if $all >= $limit { $*then }", "if l.need == healthy && $all >= $limit { $*then }"},
	{"broken-nodes-not-counted", "Ready nodes that are unavailable do not use up the budget", updater, "tally.add",
		`if $movingNow() { $*then }
		if $unavailableNow() { $*body }`,
		`if $movingNow() { $*then }
		if $movingNow() { $*body }`},
	{"missing-pods-invisible", "a node whose pod is not yet recreated is invisible", updater, "State.RolloutNode",
		"$pod == nil && !$Create", "$pod == nil"},
	{"missing-pods-offline", "an offline node whose pod is missing counts as updated", updater, "nodeFacts.include",
		`$UID == "" || $Terminating`, "$Terminating"},
	{"offline-nodes-started", "nodes that were offline before they were touched are touched", updater, "nodeFacts.stands",
		`case $f.$updated(): $*then
		case !$Ready: return $away`,
		`case $f.$updated(): $*then
		case !$Ready && !$f.outdated: return $away`},
	{"offline-nodes-cost", "offline nodes eat the budget", updater, "nodeFacts.unavailableNow",
		"$Ready && $unavailable", "$unavailable || !$Ready"},

	// Operations under a rollout.
	{"driver-deleted", "the driver's pod is deleted on a node with workloads on it", updater, "nodeFacts.next",
		"if $isHeavy($pod) { return nil }", "if false { return nil }"},
	{"unprepared-started", "a node gets its slot before its images are there", updater, "nodeFacts.unprepared",
		"$Job == nil || !$Prepared", "$Job == nil"},
	{"stale-granted", "an operation for an earlier target is granted", updater, "nodeFacts.unprepared",
		"$Job == nil || !$Prepared || $stale($Job)", "$Job == nil || !$Prepared"},
	{"slot-back-while-operating", "the slot of an operation is given back before it has ended", updater, "planner.settleOperation",
		`if $end == nil {
			$slots = append($slots, $slot)
			return
		}`,
		`if $end == nil {
			$slots = append($slots, []Slot{}...)
			return
		}`},
	{"done-and-behind", "a view that is behind makes an operation that is done begin again", updater, "planner.settleDone",
		"$node.$settled() || $Revision != $inRevision || $begunAnew(&$slot)",
		"$node.$settled() || $Revision != $inRevision || $node.heavy"},
	{"failed-operation-forgiven", "a failed operation does not count against the version", updater, "planner.settleOperation",
		"$Reason = ReasonOperationFailed", ""},
	{"held-nodes-free", "a node that is kept cordoned does not use up the budget", updater, "nodeFacts.examine",
		`$unavailable = $Disturbed
		$held := $holds()`,
		`$unavailable = false
		$held := $holds()`},
	{"two-groups-one-node", "a node at which another group is at work is started", updater, "nodeFacts.stands",
		"$Job != nil && !$Ours", "false"},
	{"no-backoff", "a node that was put off is tried again at once", updater, "nodeFacts.stands",
		`case $Returned > 0 && $strategy != $OTA && $rested.After($now): $*then
		case $heavy && $Retry.After($now): $*body`,
		`case $Returned > 0 && $strategy != $OTA && $rested.After($now): $*then
		case false: $*body`},
	{"granted-again", "an operation that has ended is granted", updater, "Ordered",
		"$hasEnded($upgrade, $Operation) && (!$Abort || !$holds($upgrade, $Operation))",
		"false && (!$Abort || !$holds($upgrade, $Operation))"},
	{"grant-over-others", "an operation takes the place of another group's", updater, "Ordered",
		"!$Ours || $disturbed && !$Held", "false || $disturbed && !$Held"},
	{"grant-before-ledger", "an operation is granted over a NodeUpgrade that moved since it was looked at", updater, "operationWriter.orderOne",
		"client.MergeFromWithOptions($before, client.MergeFromWithOptimisticLock{})",
		"client.MergeFromWithOptions($before)"},
	{"one-id-for-all", "operations of several nodes have one id", updater, "planner.newOperation",
		"fmt.Sprintf($format, $*others, $hash, len($Ended))", "fmt.Sprintf($format, $*others, 0, len($Ended))"},
	{"healthy-ready-first", "a healthy node that is prepared keeps those that go before it from being prepared", updater, "planner.goesBefore",
		"$others || $need == $healthy && $lNeed != $healthy", "$others"},
	{"stalled-in-the-way", "a node that cannot be prepared keeps others from being prepared", updater, "planner.prepare",
		`if $stale($Job) { continue }
		if !$Stalled { $*then }`,
		`if $stale($Job) { continue }
		if $Job != nil { $*then }`},
	{"pool-in-the-way", "a node that is prepared in a pool that is used up keeps other pools from being prepared", updater, "planner.goesBefore",
		"$Pool == $pool || $refused[$lane].$reason != $ReasonPoolExhausted",
		`$Pool != "" || $refused[$lane].$reason != $ReasonPoolExhausted`},
	{"held-in-flight", "nodes that are held keep each other from being started", updater, "nodeFacts.examine",
		"!$held && $isMoving(&$Pods[$i])", "$isMoving(&$Pods[$i])"},
	{"held-for-good", "a node that is held and has its targets gets no operation", updater, "nodeFacts.examine",
		"$outdated, $wants, $heavy = true, true, true", "$heavy = $outdated"},
	{"light-under-operation", "pods are deleted while an operation is at work on the node", updater, "planner.nextSteps",
		`$others || $Operation != "" && $ended($Operation) == nil || $atWork()`,
		`$others || $Operation != "" && $ended($Operation) == nil`},
	{"heavy-and-lost", "a node that is lost gives its slot back when it needs an operation", updater, "nodeFacts.quiet",
		"$Ready && !$absent", "!$absent"},
	{"made-granted", "an operation that is made again is granted by who may be late", updater, "operationWriter.orderOne",
		"$next.Abort = $order.$Abort", "$next.Granted, $next.Abort = $order.Grant, $order.$Abort"},
	{"owner-not-woken", "a group without a strategy does not notice that its operations ended", updater, "Groups.addOwner",
		"$groups[$Group{$Kind: $kindGcuResource, $Name: $name}] = true", "_ = $name"},
	{"answers-stuck", "an answer is tried again for ever on what the agent changed since", updater, "requestAnswerer.write",
		"apierrors.IsConflict($err)", "apierrors.IsConflict($err) && s == nil"},
	// Only the simulation of operations sees these.
	{"others-not-woken", "other groups do not notice that a node is free again", updater, "Groups.AskedFor",
		"for _, $g := range $groupsWith($ctx, $controlled) { $groups[$g] = true }", ""},
	{"ends-unseen", "the end of an operation wakes nobody", updater, "UpgradeChanged",
		`$others ||
			!equality.Semantic.DeepEqual($before.Status.Operation, $after.Status.Operation) ||
			!equality.Semantic.DeepEqual($before.Status.History, $after.Status.History)`,
		"$others"},
	{"withdrawn-unlocked", "an operation is taken away that is not the one that was seen", updater, "operationWriter.cancel",
		"client.MergeFromWithOptions($asked[$i], client.MergeFromWithOptimisticLock{})",
		"client.MergeFromWithOptions($asked[$i])"},
	{"slot-back-ungranted", "a slot is given back because its grant was not seen, and another manager grants late", updater, "planner.settleOperation",
		`if $end == nil {
			$p.$slots = append($p.$slots, $slot)
			return
		}`,
		`if $end == nil && len(node.Ended) > 0 && node.Job != nil && !node.Job.Granted {
			$p.fleet.mark(node, nil, nil)
		} else if $end == nil {
			$p.$slots = append($p.$slots, $slot)
			return
		}`},
	{"operations-left", "a group that is gone leaves its operations", updater, "steps.abandon",
		"_, $err := $cancel($ctx, $RolloutKey($namespace).String())", "var $err error"},

	{"own-node-first", "the node that the operator runs on is drained among the first", updater, "nodeFacts.role",
		"case $Home: return 2", "case $Home: return -2"},

	// Slots and deletions.
	{"lost-nodes-forgotten", "a node lost after it was touched drops out of the count", updater, "planner.decideSlot",
		"$node.$settled() || ($retarget && $idle(*$slot))",
		"!$node.Ready || $node.$settled() || ($retarget && $idle(*$slot))"},
	{"slot-lost-at-switch", "a switch to OTA frees the slot of a node whose pod was deleted", updater, "nodeFacts.concerns",
		"$slot != nil && slices.Contains($Members, $members[$Member].$Key)", "false"},
	{"settled-while-outdated", "under OTA a slot is given back while its pod is outdated again and not available", updater, "nodeFacts.settled",
		`$f.$concerns(&$pod) && ($UID == "" || $Terminating || !$Available)`,
		`$f.$concerns(&$pod) && !$f.isOutdated(&$pod) && ($UID == "" || $Terminating || !$Available)`},
	{"slot-back-unfenced", "a slot is given back while the pod it names can still be deleted", updater, "planner.spent",
		"len($Members) == 0", "len($Members) >= 0"},
	{"slot-renamed-unfenced", "a slot names another pod while the first can still be deleted", updater, "planner.nextSteps",
		"$Pod != $UID && !$spent(*$slot, $node)", `$Pod == "" && !$spent(*$slot, $node)`},
	{"released-unfenced", "a rollout is deleted while a pod that it names can still be deleted", updater, "steps.release",
		"if $holdsSlot(&$d) { $*then }", "if false { $*then }"},
	{"old-news", "a pod is deleted in the version that the slot names by what was seen of an earlier one", updater, "planner.nextSteps",
		"$Pod == $UID && $older($Version, $PodVersion)", "false"},
	{"delete-on-lost-node", "a pod is deleted on a node that is offline", updater, "planner.nextSteps",
		"$node == nil || !$Ready", "$node == nil"},
	{"members-at-once", "pods of a node are replaced without waiting for the one before", updater, "nodeFacts.next",
		"$isOutdated($pod) || $Available", "true"},
	{"ledger-after-touch", "pods are deleted although the ledger was not stored", updater, "steps.carryOut",
		`$failed := $check.Wait()
		if $err != nil { $*then }`,
		`$failed := $check.Wait()
		if $err != nil && ctx.Err() != nil { $*then }`},
	{"no-uid-precondition", "a deletion may hit a successor of the same name", pods, "Replacer.Delete",
		"client.Preconditions{UID: &$UID}", "client.Preconditions{}"},
	{"no-version-precondition", "a deletion may hit a pod that was written to since the ledger named it", pods, "Replacer.Delete",
		`$Version != ""`, `$Version == "any"`},
	{"no-recheck", "a DaemonSet that opted out a moment ago loses pods", updater, "Member.SameSettings",
		"$err1 == nil && $err2 == nil && $before == $now", "$err1 == nil || $err2 == nil || $before == $now"},
	{"old-target", "a pod is deleted that is at a revision the cache does not show yet", updater, "Member.SameTarget",
		"$err1 == nil && $err2 == nil && $observed == $now",
		`$err1 == nil && $err2 == nil && ($observed == $now || $observed != "")`},

	// Failures.
	{"lost-nodes-never-fail", "a node that never returns holds its slot for ever", updater, "planner.expire",
		`if $node != nil { $*then }
		$left := $lost.Add($Lost).Sub($Now)`,
		`if $node != nil { $*then }
		$left := $lost.Add(1000 * $Lost).Sub($Now)`},
	{"lost-nodes-heal", "a dead node at the target counts as healed", updater, "nodeFacts.healed",
		"$Ready && $updated()", "$updated()"},
	{"halt-ignored", "nodes start after a halt", updater, "planner.startNodes",
		`!$Paused && $halted == ""`, "!$Paused"},
	{"pause-ignored", "nodes start while paused", updater, "planner.startNodes",
		`!$Paused && $halted == ""`, `$halted == ""`},
	{"lapses-ignored", "a version that takes its node down after it was updated goes on", updater, "nodeFacts.lapses",
		"$standing != $finished", "$standing == $finished"},
	{"lapses-for-ever", "a node that joined long after the rollout and went offline halts it", updater, "planner.suspectLapsed",
		"$others || $made.After($lastStart.Add($Progress))", "$others"},

	// The queue.
	{"turns-ignored", "a queued node is started while all before it are in flight", updater, "planner.serveQueued",
		"$behind < $limit", "$behind < $limit+100"},
	{"queue-runs-on", "queued nodes start while paused", updater, "planner.mayStay",
		`$Paused || $halted != ""`, `$halted != ""`},
	{"queue-starts-after-a-halt", "queued nodes start after a halt", updater, "planner.mayStay",
		`$Paused || $halted != ""`, "$Paused"},
	{"queue-outlives-policy", "queued nodes start though the policy holds them", updater, "planner.mayStay",
		`$reason == ""`, `$reason != "X"`},
	{"queue-given-back-unfenced", "a queued node that gives its slot back can still lose its pod", updater, "planner.serveQueued",
		"if $spent(*$slot, $node) { $*then }", "if $node.queued { $*then }"},
	{"queue-taken-for-started", "a queued node is taken for started when its pod is not seen yet", updater, "planner.staysQueued",
		"$pod != nil && ($older($Version, $PodVersion) || $UID == $Pod && !$Terminating)",
		"$pod != nil && $UID == $Pod && !$Terminating"},
	{"queue-forgets-unseen-nodes", "a slot is given back because the cache does not show its node yet", updater, "steps.carryOut",
		"if $err := $confirmGone($ctx, $p); $err != nil { $*then }", "if $err := $confirmGone($ctx, &pass{}); $err != nil { $*then }"},
	{"unseen-by-the-cache", "a node that the cache does not show is taken for gone", updater, "fleetReader.confirmNodeGone",
		"$cached.ResourceVersion != $live.ResourceVersion",
		"$cached.UID == $live.UID && $cached.ResourceVersion != $live.ResourceVersion"},
	{"queue-in-flight", "queued nodes use up the budget", updater, "planner.countUse",
		"if $p.$slots[$i].$Queued { continue }", "if $p.$slots[$i].$Queued && $p.limit < 0 { continue }"},
	{"queue-not-stored", "a queued node is started under a slot that was not stored", updater, "allStored",
		"$others || $old.PodUID != $s.PodUID", "$others"},
	{"crash-loops-ignored", "a crash-looping version goes on until the deadline", updater, "planner.expire",
		"if $pod := $crashLooping($Since); $pod != nil { $*then }",
		"if $pod := $crashLooping($Since); $pod != nil && p.touched < 0 { $*then }"},
	{"failures-stick", "a new revision does not forget the failures of the old one", updater, "planner.settleFailures",
		"$Resume != $Resumed || $ledgerRevision != $revision", "$Resume != $Resumed"},
	{"resume-ignored", "a rollout that a person resumed stays halted", updater, "planner.settleFailures",
		"$Resume != $Resumed || $ledgerRevision != $revision", "$ledgerRevision != $revision"},

	// OTA.
	{"ota-by-itself", "under OTA nodes start though nobody asked", updater, "nodeFacts.allowed",
		"$Request != nil && $PodUID == $UID", "true"},
	{"request-for-any-pod", "a request replaces the successor of the pod it named", updater, "nodeFacts.allowed",
		"$Request != nil && $PodUID == $UID", "$Request != nil"},

	{"hold-ignored", "a node is started though its person holds it", updater, "nodeFacts.byPeople",
		"len($Holds) > 0 && !$operating()", "false"},
	{"hold-stops-what-runs", "an operation of a held node loses its slot for good", updater, "nodeFacts.byPeople",
		"len($Holds) > 0 && !$operating()", "len($Holds) > 0"},
	{"hold-unseen", "what a person at a node wants does not get to the plan", updater, "describeOperations",
		"$Holds = $HoldsOf($upgrade)", "$Holds = $HoldsOf($upgrade)[:0]"},
	{"hold-unheard", "a hold does not wake the groups", updater, "UpgradeChanged",
		"!slices.Equal($HoldsOf($before), $HoldsOf($after))", "!slices.Equal($HoldsOf($before), $HoldsOf($before))"},

	{"administrators-unheard", "a hold of an administrator is not seen", sets, "HoldsOf",
		"if $value, $ok := $upgrade.Annotations[$AnnotationHold]; $ok { $*then }",
		"if $value, $ok := $upgrade.Annotations[$AnnotationHold]; $ok && false { $*then }"},
	{"hold-needs-a-date", "a hold that somebody wrote by hand is none", sets, "HoldsOf",
		`if $since, $err := time.Parse(time.RFC3339, $first); $err == nil {
			$Since, $Message = $since, strings.TrimSpace($rest)
		}`,
		`if $since, $err := time.Parse(time.RFC3339, $first); $err != nil { return holds } else if true {
			$Since, $Message = $since, strings.TrimSpace($rest)
		}`},

	// Limits and previews.
	{"waves-wait-for-what-is-left-out", "a wave waits for nodes that a limited upgrade leaves out", updater, "tally.open",
		"$nodes - $by[$finished] - $by[$away] - $by[$leftOut]", "$nodes - $by[$finished] - $by[$away]"},
	{"waves-passed-by-a-limit", "the waves that a limited upgrade passed are passed for the whole fleet", updater, "planner.completedBefore",
		"$others || $Limit != $remembered($Only)", "$others"},
	{"limit-soaks-for-nothing", "a limited upgrade waits for the soak of a wave that it leaves out", updater, "planner.reachWave",
		"$outside > 0 && $outside == $nodes", "$outside < 0"},
	{"preview-of-the-present", "a preview does not look at the template that is to come", updater, "Member.Target",
		`$foreseen != ""`, `$foreseen == "none"`},
	{"preview-forgets-in-flight", "a preview does not tell the nodes in flight", updater, "preview.note",
		"$inFlight = $underWay($d)", "$inFlight = nil"},
	{"preview-without-budgets", "a preview does not see that a PodDisruptionBudget refuses", foretold, "refusing",
		"$b.Status.DisruptionsAllowed > 0", "$b.Status.DisruptionsAllowed >= 0"},

	// Policies.
	{"waves-ignored", "later waves start at once", updater, "planner.held",
		"$need == $healthy && $wave > $reached", "$wave > $reached+100"},
	{"waves-deadlock", "an unavailable node of a later wave blocks all", updater, "planner.held",
		"$need == $healthy && $wave > $reached", "$wave > $reached"},
	{"waves-not-waited-for", "a wave is passed while nodes of it are open", updater, "planner.followWaves",
		"$open[$i] == 0", "$open[$i] >= 0"},
	{"waves-unproven", "a wave that is all offline is passed", updater, "planner.followWaves",
		"$proven > 0", "$proven >= 0"},
	{"waves-forget-lost-nodes", "a wave is passed while a node it lost is open", updater, "planner.openInWaves",
		"$open[$wave]++", "$open[$wave] += 0"},
	{"soak-ignored", "the next wave does not wait for the soak", updater, "planner.reachWave",
		"if $left := $soaked.Sub($Now); $left > 0 { $*then }",
		"if $left := $soaked.Sub($Now); $left > 1000*time.Hour { $*then }"},
	{"approval-ignored", "a manual wave starts by itself", updater, "planner.unapproved",
		"$others || !$in.$Policy.$Waves[$wave].$Manual",
		"$others || !$in.$Policy.$Waves[$wave].$Manual || $in.Now.IsZero() == false"},
	{"old-approval", "the approval of an older revision is good for the next", updater, "approvedWaves",
		"$of == $revision", `$of != ""`},
	{"pools-ignored", "the budget of a pool is not kept", updater, "planner.unaffordable",
		"$PoolMaxUnavailable != nil && $inPool >= $limit", "$PoolMaxUnavailable != nil && $inPool >= $limit+100"},
	{"window-ignored", "nodes start outside of the maintenance window", updater, "planner.shut",
		"!$open", "!$open && left < 0"},
	{"window-of-the-policy-only", "a node's own time zone is not looked at", updater, "planner.shut",
		`if $zone == nil { $*then }
		$open, $changes := $w.$at($Now, $zone)`,
		`if $w.Zone != nil { $*then }
		$open, $changes := $w.$at($Now, $zone)`},
	{"window-by-old-times", "the window does not look at what a node took that is done just now", updater, "planner.shut",
		"if $usual := $p.$kept; $usual > $left { $*then }",
		"if $usual := $p.in.Ledger.Usual; $usual > $left { $*then }"},
	{"returned-ignored", "a node that flaps is started as soon as it is back", updater, "nodeFacts.stands",
		"$Returned > 0", "$Returned > 1000*time.Hour"},
	{"threshold-ignored", "the failure threshold of the policy is not lower than the default", updater, "planner.judgeFailures",
		"$threshold = $scaled($given, $touched)", "$threshold = max($threshold, $scaled($given, $touched))"},
	{"control-plane-first", "control plane nodes go first where they are to go last", updater, "nodeFacts.role",
		"return 1", "return -1"},
	{"missing-policy-is-none", "a policy that does not exist becomes no policy", updater, "applyPolicy",
		`$Policy == "" || $Blocked != nil`, `$Policy == "" || $Blocked != nil || named == nil`},
	{"policy-over-annotation", "max-unavailable of the policy wins over the annotation", updater, "applyPolicy",
		"$spec.MaxUnavailable != nil && $chosen == ($Settings{}).$MaxUnavailable", "$spec.MaxUnavailable != nil"},
	{"local-time-zone", "Local is taken for a time zone", updater, "zoneOf",
		`$err != nil || $name == "" || $name == "Local"`, "$err != nil"},

	// What is kept between passes.
	{"time-stands-still", "a fleet that is kept does not see that a pod is available by now", updater, "Fleet.advance",
		"!$ok || $at.After($now)", "!$ok || !$at.IsZero()"},
	{"tallies-grow", "a node that changed is counted twice", updater, "Fleet.leave",
		"$count($n, -1)", "$count($n, 0)"},
	{"lanes-keep-nodes", "a node stays in the queue it was in before it changed", updater, "Fleet.leave",
		`delete($preparing, $Name)
		if $l := $lane; $l != nil { $*then }`,
		`delete($preparing, $Name)
		if $l := $lane; $l != nil && $l.nodes.Len() == 1 { $*then }`},
	{"labels-ignored", "a node that is labelled otherwise stays in its wave", updater, "Fleet.Set",
		"$old == nil || !maps.Equal($Labels, $nodeLabels)", "$old == nil || !maps.Equal($nodeLabels, $nodeLabels)"},
	{"marks-stay", "slots of the last decision are taken for slots of this one", updater, "Fleet.begin",
		"$marked, $queued, $slot, $failure = false, false, nil, nil", "$marked = false"},
	{"dirty-nodes-not-read", "a node that an event was about is not read again", updater, "fleetReader.refresh",
		"for _, $name := range $changed { $*then }", "for _, $name := range $changed[:0] { $*then }"},
	{"failed-reading-forgotten", "nodes whose reading failed are not read again", updater, "Reconciler.Reconcile",
		`if $err != nil {
			delete($fleets, $g)
			return ctrl.Result{}, $err
		}`,
		`if $err != nil {
			_ = changed
			return ctrl.Result{}, $err
		}`},
	{"frame-without-generation", "an edit of a DaemonSet does not make the view anew", updater, "State.CacheKey",
		`fmt.Fprintf(&$b, " %s/%d/%s", $daemonSet.UID, $daemonSet.Generation, $Members[$i].$Target)`,
		`fmt.Fprintf(&$b, " %s/%s", $daemonSet.UID, $Members[$i].$Target)`},
	{"frame-without-policy", "an edit of the policy does not make the view anew", updater, "State.CacheKey",
		`fmt.Fprintf(&$b, " %s/%d", $policy.UID, $policy.Generation)`, `fmt.Fprintf(&$b, " %s", $policy.UID)`},

	// PodNeedUpgrade.
	{"skipped-nodes-unmarked", "pods of skipped nodes do not say that they need an upgrade", updater, "isStopped",
		"$State == $Skipped || $Reason == $ReasonPaused", "$Reason == $ReasonPaused"},
	{"paused-nodes-unmarked", "pods do not say that they need an upgrade while paused", updater, "isStopped",
		"$State == $Skipped || $Reason == $ReasonPaused", "$State == $Skipped"},
	{"pause-not-looked-at", "the pause of a rollout does not change what its pods say", updater, "needBasisOf",
		`$marking{$blocked: $Blocked != nil, $paused: $Paused, $halted: $Halted != ""}`,
		`$marking{$blocked: $Blocked != nil, $halted: $Halted != ""}`},

	// Rollback.
	{"rollback-not-stored-first", "a rollback begins before the intent is in the ledger", updater, "MustPrecede",
		"$others || !$allStored($next.$Queued, $stored.$Queued) || !$sameMemory($stored, $next)",
		"$others || !$allStored($next.$Queued, $stored.$Queued)"},
	{"rollback-loops", "a last known good revision that fails is rolled back to itself", updater, "atGood",
		`$good.Revision == $Revision || ($agreed && $spec != "" && $spec == $good.GcuResourceRevision)`,
		`$agreed && $spec != "" && $spec == $good.GcuResourceRevision`},
	{"rollback-while-paused", "a paused group is rolled back", updater, "RollbackOf",
		`case $Paused: $*then
		case $good == nil: $*body`,
		`case $Paused && d.Halted == "": $*then
		case $good == nil: $*body`},
	{"rollback-once", "a bad version that is applied again is not rolled back again", updater, "followed",
		"$before.Revision != $r.From", "in.Now.IsZero()"},
	{"offline-fleet-is-good", "a version that no reachable node runs is known to be good", updater, "Decision.Proven",
		"$Ready && $verdict($n).$State == $Updated", "$verdict($n).$State == $Updated"},
	{"two-writes-behind", "a cache that is two writes behind shows an older ledger as news", updater, "ledgerStore.replaced",
		"append($basedOn, $version)", "[]string{$version}"},
	{"mixed-specs-are-good", "half of a spec is known to be good", updater, "knownGood",
		"!$good || !$agreed", "!$good || (!$agreed && in.Now.IsZero())"},
	{"undo-without-precondition", "a rollback overwrites a template that changed meanwhile", updater, "TemplatePatch",
		`map[string]any{"uid": $live.UID, "resourceVersion": $live.ResourceVersion}`,
		`map[string]any{"uid": $live.UID}`},
	{"undo-of-a-newer-template", "a rollback undoes a revision the cache does not show yet", updater, "rollbackStep.undo",
		"$revision == nil || !$SameTarget($live, $revisions)", "$revision == nil"},
	{"newer-spec-overruled", "a rollback overrules a spec that is not applied yet", updater, "rollbackStep.askForSpec",
		"$gr.Status.ObservedGeneration != $gr.Generation || !$carriedOver(&$gr, $live)", "!$carriedOver(&$gr, $live)"},
	{"conditions-overwritten", "a patch of one pod condition removes the others", updater, "conditionPatch",
		`"conditions": $changes`, `"conditions": append($changes, map[string]any{"$patch": "replace"})`},

	// Settings.
	{"zero-becomes-default", "max-unavailable 0 silently becomes the default", sets, "maxUnavailable",
		"$err != nil || $n == 0", "$err != nil"},
	{"unknown-becomes-rolling", "an unknown strategy is taken for AdvancedRollingUpdate", sets, "SettingsOf",
		`case "advancedrollingupdate", "auto": $Strategy = $AdvancedRollingUpdate`,
		`case "advancedrollingupdate", "auto", "canary", "rolling", "rollingupdate": $Strategy = $AdvancedRollingUpdate`},
	{"rolling-update-type", "a DaemonSet that Kubernetes itself rolls is rolled too", sets, "SettingsOf",
		"$ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType", `$ds.Spec.UpdateStrategy.Type == ""`},
	{"percent-rounds-down", "a percentage rounds down", sets, "Settings.Limit",
		"intstr.GetScaledValueFromIntOrPercent(&$most, $total, true)",
		"intstr.GetScaledValueFromIntOrPercent(&$most, $total, false)"},
	{"old-template", "the target is known before the newest template was observed", sets, "TargetRevision",
		"$ds.Status.ObservedGeneration != $ds.Generation", "$ds.Status.ObservedGeneration > $ds.Generation"},

	// PodImageReady and what is taken back, at the operator.
	{"image-of-another-pod", "a pull for an earlier pod of the name counts", updater, "imageReadyChange",
		"$p.Pod.UID == $uid && $p.Pod.Name == $name", "$p.Pod.Name == $name"},
	{"image-of-another-revision", "a pull of another revision counts", updater, "imageReadyChange",
		"$samePod && $p.Revision == $target", "$samePod"},
	{"image-without-ota", "PodImageReady stays when OTA is left", updater, "imageReadyChange",
		"$Strategy != $OTA || $revision == $target", "$Strategy == daemonset.NoStrategy || $revision == $target"},
	{"withdrawn-started", "a request that was taken back starts its node", updater, "openRequests",
		"!$final[$r.ID] && !$r.Withdrawn", "!$final[$r.ID]"},
	{"withdrawn-in-flight", "a request that has started is said to be taken back", updater, "Answers.state",
		"$State == $InFlight || !$same || $Terminating",
		"($State == $InFlight || !$same || $Terminating) && !request.Withdrawn"},
}
