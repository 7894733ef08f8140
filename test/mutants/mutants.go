package main

// mutant is one seeded defect: in file, from becomes to.
type mutant struct {
	name, says, file, from, to string
}

const (
	plan    = "pkg/daemonupdater/rollout/plan.go"
	start   = "pkg/daemonupdater/rollout/start.go"
	node    = "pkg/daemonupdater/rollout/node.go"
	tally   = "pkg/daemonupdater/rollout/tally.go"
	lane    = "pkg/daemonupdater/rollout/lane.go"
	fleet   = "pkg/daemonupdater/rollout/fleet.go"
	queue   = "pkg/daemonupdater/rollout/queue.go"
	fence   = "pkg/daemonupdater/rollout/fence.go"
	waves   = "pkg/daemonupdater/rollout/waves.go"
	window  = "pkg/daemonupdater/rollout/window.go"
	updater = "pkg/daemonupdater/"
	sets    = "pkg/daemonset/"
)

var mutants = []mutant{
	// Budgets.
	{"budget-off-by-one", "one node more than max-unavailable", start,
		"if all >= p.limit {", "if all > p.limit {"},
	{"broken-nodes-unlimited", "unavailable nodes are replaced outside of the budget", start,
		"	if all >= p.limit {", "	if l.need == healthy && all >= p.limit {"},
	{"broken-nodes-not-counted", "Ready nodes that are unavailable do not use up the budget", tally,
		"if n.unavailableNow() {", "if n.movingNow() {"},
	{"missing-pods-invisible", "a node whose pod is not yet recreated is invisible", updater + "facts.go",
		"if (pod == nil && !placement.Create) ||", "if pod == nil ||"},
	{"missing-pods-offline", "an offline node whose pod is missing counts as updated", node,
		`absent := pod.UID == "" || pod.Terminating`, "absent := pod.Terminating"},
	{"offline-nodes-started", "nodes that were offline before they were touched are touched", node,
		"case !f.Ready:", "case !f.Ready && !f.outdated:"},
	{"offline-nodes-cost", "offline nodes eat the budget", node,
		"unavailableNow() bool { return f.Ready && f.unavailable }", "unavailableNow() bool { return f.unavailable || !f.Ready }"},

	// Slots and deletions.
	{"lost-nodes-forgotten", "a node lost after it was touched drops out of the count", plan,
		"over := node.settled() ||", "over := !node.Ready || node.settled() ||"},
	{"slot-lost-at-switch", "a switch to OTA frees the slot of a node whose pod was deleted", node,
		"return f.slot != nil && slices.Contains(f.slot.Members, f.frame.members[pod.Member].Key)", "return false"},
	{"settled-while-outdated", "under OTA a slot is given back while its pod is outdated again and not available", node,
		`return f.concerns(&pod) && (pod.UID == ""`, `return f.concerns(&pod) && !f.isOutdated(&pod) && (pod.UID == ""`},
	{"slot-back-unfenced", "a slot is given back while the pod it names can still be deleted", fence,
		`if slot.PodVersion == "" || len(slot.Members) == 0 {`, `if slot.PodVersion == "" || len(slot.Members) >= 0 {`},
	{"slot-renamed-unfenced", "a slot names another pod while the first can still be deleted", plan,
		"if slot.Pod != pod.UID && !p.spent(*slot, node) {", `if slot.Pod == "" && !p.spent(*slot, node) {`},
	{"slot-version-goes-back", "a manager whose cache is behind lets an older version of a pod be deleted", fence,
		"if s.Pod != pod.UID || newer(pod.Version, s.PodVersion) {", "if s.Pod != pod.UID || pod.Version != s.PodVersion {"},
	{"released-unfenced", "a rollout is deleted while a pod that it names can still be deleted", updater + "reconciler.go",
		"if o.view.unfenced(&d) {", "if false {"},
	{"delete-on-lost-node", "a pod is deleted on a node that is offline", plan,
		"if node == nil || !node.Ready || slot.Queued {", "if node == nil || slot.Queued {"},
	{"members-at-once", "pods of a node are replaced without waiting for the one before", node,
		"if f.isOutdated(pod) || pod.Available {", "if true {"},
	{"ledger-after-touch", "pods are deleted although the ledger was not stored", updater + "reconciler.go",
		"	failed := check.Wait()\n	if err != nil {", "	failed := check.Wait()\n	if err != nil && ctx.Err() != nil {"},
	{"no-uid-precondition", "a deletion may hit a successor of the same name", updater + "act.go",
		"p := client.Preconditions{UID: &d.UID}", "p := client.Preconditions{}"},
	{"no-version-precondition", "a deletion may hit a pod that was written to since the ledger named it", updater + "act.go",
		`if d.Version != "" {`, `if d.Version == "any" {`},
	{"no-recheck", "a DaemonSet that opted out a moment ago loses pods", updater + "act.go",
		"return err1 == nil && err2 == nil && before == now", "return err1 == nil || err2 == nil || before == now"},
	{"old-target", "a pod is deleted that is at a revision the cache does not show yet", updater + "act.go",
		"return err1 == nil && err2 == nil && observed == now\n", "return err1 == nil && err2 == nil && (observed == now || observed != \"\")\n"},

	// Failures.
	{"lost-nodes-never-fail", "a node that never returns holds its slot for ever", plan,
		"left := lost.Add(p.in.Deadlines.Lost).Sub(p.in.Now)", "left := lost.Add(1000 * p.in.Deadlines.Lost).Sub(p.in.Now)"},
	{"lost-nodes-heal", "a dead node at the target counts as healed", node,
		"return f.Ready && f.updated()", "return f.updated()"},
	{"halt-ignored", "nodes start after a halt", start,
		`if !p.in.Settings.Paused && p.halted == "" {`, "if !p.in.Settings.Paused {"},
	{"pause-ignored", "nodes start while paused", start,
		`if !p.in.Settings.Paused && p.halted == "" {`, `if p.halted == "" {`},
	{"lapses-ignored", "a version that takes its node down after it was updated goes on", node,
		"if f.Ready || f.standing != finished {", "if f.Ready || f.standing == finished {"},
	{"lapses-for-ever", "a node that joined long after the rollout and went offline halts it", plan,
		"|| made.After(p.lastStart.Add(p.in.Deadlines.Progress)) {", "{"},

	// The queue.
	{"turns-ignored", "a queued node is started while all before it are in flight", queue,
		"(node.lane.need != healthy || behind < p.limit)", "(node.lane.need != healthy || behind < p.limit+100)"},
	{"queue-runs-on", "queued nodes start while paused", queue,
		`if p.in.Settings.Paused || p.halted != "" ||`, `if p.halted != "" ||`},
	{"queue-starts-after-a-halt", "queued nodes start after a halt", queue,
		`if p.in.Settings.Paused || p.halted != "" ||`, `if p.in.Settings.Paused ||`},
	{"queue-outlives-policy", "queued nodes start though the policy holds them", queue,
		`return reason == ""`, `return reason != "X"`},
	{"queue-given-back-unfenced", "a queued node that gives its slot back can still lose its pod", queue,
		"if p.spent(*slot, node) {", "if node.queued {"},
	{"queue-in-flight", "queued nodes use up the budget", start,
		"if p.slots[i].Queued {", "if p.slots[i].Queued && p.limit < 0 {"},
	{"queue-not-stored", "a queued node is started under a slot that was not stored", updater + "ledger.go",
		"old.PodUID != s.PodUID || old.PodVersion", "old.PodVersion"},
	{"crash-loops-ignored", "a crash-looping version goes on until the deadline", plan,
		"pod := node.crashLooping(slot.Since); pod != nil", "pod := node.crashLooping(slot.Since); pod != nil && p.touched < 0"},
	{"failures-stick", "a new revision does not forget the failures of the old one", plan,
		"p.in.Resume != p.in.Ledger.Resumed || p.in.Ledger.Revision != p.in.Revision ||", "p.in.Resume != p.in.Ledger.Resumed ||"},
	{"resume-ignored", "a rollout that a person resumed stays halted", plan,
		"if p.in.Resume != p.in.Ledger.Resumed || p.in.Ledger.Revision", "if p.in.Ledger.Revision"},

	// OTA.
	{"ota-by-itself", "under OTA nodes start though nobody asked", node,
		"return pod.Request != nil && pod.Request.PodUID == pod.UID", "return true"},
	{"request-for-any-pod", "a request replaces the successor of the pod it named", node,
		"return pod.Request != nil && pod.Request.PodUID == pod.UID", "return pod.Request != nil"},

	// Policies.
	{"waves-ignored", "later waves start at once", waves,
		"if l.need == healthy && l.wave > p.waves.reached {", "if l.wave > p.waves.reached+100 {"},
	{"waves-deadlock", "an unavailable node of a later wave blocks all", waves,
		"if l.need == healthy && l.wave > p.waves.reached {", "if l.wave > p.waves.reached {"},
	{"waves-not-waited-for", "a wave is passed while nodes of it are open", waves,
		"passed && open[i] == 0 &&", "passed && open[i] >= 0 &&"},
	{"waves-unproven", "a wave that is all offline is passed", waves,
		"(proven > 0 || state.Total == 0)", "(proven >= 0 || state.Total == 0)"},
	{"waves-forget-lost-nodes", "a wave is passed while a node it lost is open", waves,
		"open[n.wave]++", "open[n.wave] += 0"},
	{"soak-ignored", "the next wave does not wait for the soak", waves,
		"left := soaked.Sub(p.in.Now); left > 0 {", "left := soaked.Sub(p.in.Now); left > 1000*time.Hour {"},
	{"approval-ignored", "a manual wave starts by itself", waves,
		"!p.in.Policy.Waves[wave].Manual ||", "!p.in.Policy.Waves[wave].Manual || p.in.Now.IsZero() == false ||"},
	{"old-approval", "the approval of an older revision is good for the next", updater + "policy.go",
		"ok && of == revision", `ok && of != ""`},
	{"pools-ignored", "the budget of a pool is not kept", start,
		"inPool >= pool.limit", "inPool >= pool.limit+100"},
	{"window-ignored", "nodes start outside of the maintenance window", window,
		"if !open {", "if !open && left < 0 {"},
	{"window-of-the-policy-only", "a node's own time zone is not looked at", window,
		"if zone == nil {", "if w.Zone != nil {"},
	{"window-by-old-times", "the window does not look at what a node took that is done just now", window,
		"usual := p.usual;", "usual := p.in.Ledger.Usual;"},
	{"returned-ignored", "a node that flaps is started as soon as it is back", node,
		"f.frame.policy.Returned > 0 &&", "f.frame.policy.Returned > 1000*time.Hour &&"},
	{"threshold-ignored", "the failure threshold of the policy is not lower than the default", plan,
		"threshold = scaled(given, p.touched)", "threshold = max(threshold, scaled(given, p.touched))"},
	{"control-plane-first", "control plane nodes go first where they are to go last", lane,
		"	return 1\n", "	return -1\n"},
	{"missing-policy-is-none", "a policy that does not exist becomes no policy", updater + "policy.go",
		`if in.Settings.Policy == "" || in.Blocked != nil {`, `if in.Settings.Policy == "" || in.Blocked != nil || o.policy == nil {`},
	{"policy-over-annotation", "max-unavailable of the policy wins over the annotation", updater + "policy.go",
		"if spec.MaxUnavailable != nil && in.Settings.MaxUnavailable == (daemonset.Settings{}).MaxUnavailable {", "if spec.MaxUnavailable != nil {"},
	{"local-time-zone", "Local is taken for a time zone", updater + "policy.go",
		`if err != nil || name == "Local" {`, "if err != nil {"},

	// What is kept between passes.
	{"time-stands-still", "a fleet that is kept does not see that a pod is available by now", fleet,
		"if !ok || first.at.After(now) {", "if !ok || !first.at.IsZero() {"},
	{"tallies-grow", "a node that changed is counted twice", fleet,
		"f.count(n, -1)", "f.count(n, 0)"},
	{"lanes-keep-nodes", "a node stays in the queue it was in before it changed", fleet,
		"if l := n.lane; l != nil {", "if l := n.lane; l != nil && l.nodes.Len() == 1 {"},
	{"labels-ignored", "a node that is labelled otherwise stays in its wave", fleet,
		"(old == nil || !maps.Equal(old.Labels, node.Labels))", "old == nil"},
	{"marks-stay", "slots of the last decision are taken for slots of this one", fleet,
		"n.marked, n.queued, n.slot, n.failure = false, false, nil, nil", "n.marked = false"},
	{"dirty-nodes-not-read", "a node that an event was about is not read again", updater + "view.go",
		"for _, name := range dirty {", "for _, name := range dirty[:0] {"},
	{"failed-reading-forgotten", "nodes whose reading failed are not read again", updater + "reconciler.go",
		"delete(r.views, g) // the nodes taken above were not read again", "_ = dirty"},
	{"frame-without-generation", "an edit of a DaemonSet does not make the view anew", updater + "view.go",
		`fmt.Fprintf(&b, " %s/%d/%s", m.daemonSet.UID, m.daemonSet.Generation, in.Members[i].Target)`,
		`fmt.Fprintf(&b, " %s/%s", m.daemonSet.UID, in.Members[i].Target)`},
	{"frame-without-policy", "an edit of the policy does not make the view anew", updater + "view.go",
		`fmt.Fprintf(&b, " %s/%d", o.policy.UID, o.policy.Generation)`, `fmt.Fprintf(&b, " %s", o.policy.UID)`},

	// PodNeedUpgrade.
	{"skipped-nodes-unmarked", "pods of skipped nodes do not say that they need an upgrade", updater + "needupgrade.go",
		"return v.State == rollout.Skipped || v.Reason", "return v.Reason"},
	{"paused-nodes-unmarked", "pods do not say that they need an upgrade while paused", updater + "needupgrade.go",
		"v.Reason == rollout.ReasonPaused || ", ""},
	{"pause-not-looked-at", "the pause of a rollout does not change what its pods say", updater + "needupgrade.go",
		"blocked: in.Blocked != nil, paused: in.Settings.Paused,", "blocked: in.Blocked != nil,"},

	// Rollback.
	{"rollback-not-stored-first", "a rollback begins before the intent is in the ledger", updater + "ledger.go",
		"!allStored(next.Queued, stored.Queued) || !sameMemory(stored, next)", "!allStored(next.Queued, stored.Queued)"},
	{"rollback-loops", "a last known good revision that fails is rolled back to itself", updater + "rollback.go",
		"return good.Revision == in.Revision || (agreed", "return (agreed"},
	{"rollback-while-paused", "a paused group is rolled back", updater + "rollback.go",
		"	case in.Settings.Paused:", `	case in.Settings.Paused && d.Halted == "":`},
	{"rollback-once", "a bad version that is applied again is not rolled back again", updater + "rollback.go",
		"case in.Revision == r.From && before.Revision != r.From:", "case in.Revision == r.From && in.Now.IsZero():"},
	{"offline-fleet-is-good", "a version that no reachable node runs is known to be good", updater + "rollout/proven.go",
		"if n.Ready && d.plan.verdict(n).State == Updated {", "if d.plan.verdict(n).State == Updated {"},
	{"two-writes-behind", "a cache that is two writes behind shows an older ledger as news", updater + "reconciler.go",
		"return append(last.basedOn, version)", "return []string{version}"},
	{"mixed-specs-are-good", "half of a spec is known to be good", updater + "rollback.go",
		"	if !good || !agreed {", "	if !good || (!agreed && in.Now.IsZero()) {"},
	{"undo-without-precondition", "a rollback overwrites a template that changed meanwhile", updater + "undo.go",
		`map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion}`, `map[string]any{"uid": live.UID}`},
	{"undo-of-a-newer-template", "a rollback undoes a revision the cache does not show yet", updater + "undo.go",
		"if revision == nil || !sameTarget(m, live, revisions) {", "if revision == nil {"},
	{"newer-spec-overruled", "a rollback overrules a spec that is not applied yet", updater + "undo.go",
		"if gr.Status.ObservedGeneration != gr.Generation || !carriedOver(&gr, live) {", "if !carriedOver(&gr, live) {"},
	{"conditions-overwritten", "a patch of one pod condition removes the others", updater + "needupgrade.go",
		`"status":   map[string]any{"conditions": []any{condition}},`, `"status":   map[string]any{"conditions": []any{condition, map[string]any{"$patch": "replace"}}},`},

	// Settings.
	{"zero-becomes-default", "max-unavailable 0 silently becomes the default", sets + "settings.go",
		"if err != nil || n == 0 || (match[2]", "if err != nil || (match[2]"},
	{"unknown-becomes-rolling", "an unknown strategy is taken for AdvancedRollingUpdate", sets + "settings.go",
		`case "advancedrollingupdate", "auto":`, `case "advancedrollingupdate", "auto", "canary", "rolling", "rollingupdate":`},
	{"rolling-update-type", "a DaemonSet that Kubernetes itself rolls is rolled too", sets + "settings.go",
		"if ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {", `if ds.Spec.UpdateStrategy.Type == "" {`},
	{"percent-rounds-down", "a percentage rounds down", sets + "settings.go",
		"GetScaledValueFromIntOrPercent(&most, total, true)", "GetScaledValueFromIntOrPercent(&most, total, false)"},
	{"old-template", "the target is known before the newest template was observed", sets + "revision.go",
		"if ds.Status.ObservedGeneration != ds.Generation {", "if ds.Status.ObservedGeneration > ds.Generation {"},
}
