package main

// mutant is one seeded defect: in file, from becomes to.
type mutant struct {
	name, says, file, from, to string
}

const (
	plan    = "pkg/daemonupdater/rollout/plan.go"
	start   = "pkg/daemonupdater/rollout/start.go"
	node    = "pkg/daemonupdater/rollout/node.go"
	order   = "pkg/daemonupdater/rollout/order.go"
	waves   = "pkg/daemonupdater/rollout/waves.go"
	window  = "pkg/daemonupdater/rollout/window.go"
	updater = "pkg/daemonupdater/"
	sets    = "pkg/daemonset/"
)

var mutants = []mutant{
	{"budget-off-by-one", "one node more than max-unavailable", start,
		"if all >= p.limit {", "if all > p.limit {"},
	{"broken-nodes-unlimited", "unavailable nodes are replaced outside of the budget", start,
		"	if all >= p.limit {", "	if node.available() && all >= p.limit {"},
	{"broken-nodes-not-counted", "Ready nodes that are unavailable do not use up the budget", node,
		"return f.slot != nil || (f.Ready && f.unavailable)", "return f.slot != nil"},
	{"missing-pods-invisible", "a node whose pod is not yet recreated is invisible", updater + "facts.go",
		"if (pod == nil && !placement.Create) ||", "if pod == nil ||"},
	{"missing-pods-offline", "an offline node whose pod is missing counts as updated", node,
		`absent := pod.UID == "" || pod.Terminating`, "absent := pod.Terminating"},
	{"offline-nodes-started", "nodes that were offline before they were touched are touched", order,
		"if !f.Ready || f.slot != nil || !f.wants {", "if f.slot != nil || !f.wants {"},
	{"offline-nodes-cost", "offline nodes eat the budget", node,
		"return f.slot != nil || (f.Ready && f.unavailable)", "return f.slot != nil || f.unavailable || !f.Ready"},
	{"lost-nodes-forgotten", "a node lost after it was touched drops out of the count", plan,
		"if node.settled() || (retarget", "if !node.Ready || node.settled() || (retarget"},
	{"slot-lost-at-switch", "a switch to OTA frees the slot of a node whose pod was deleted", node,
		"return f.slot != nil && slices.Contains(f.slot.Members, f.in.Members[pod.Member].Key)", "return false"},
	{"lost-nodes-never-fail", "a node that never returns holds its slot for ever", plan,
		"left := lost.Add(p.in.Deadlines.Lost).Sub(p.in.Now)", "left := lost.Add(1000 * p.in.Deadlines.Lost).Sub(p.in.Now)"},
	{"lost-nodes-heal", "a dead node at the target counts as healed", node,
		"return f.Ready && f.updated()", "return f.updated()"},
	{"delete-on-lost-node", "a pod is deleted on a node that is offline", plan,
		"if node == nil || !node.Ready {", "if node == nil {"},
	{"halt-ignored", "nodes start after a halt", start,
		`if p.in.Settings.Paused || p.halted != "" {`, "if p.in.Settings.Paused {"},
	{"pause-ignored", "nodes start while paused", start,
		`if p.in.Settings.Paused || p.halted != "" {`, `if p.halted != "" {`},
	{"crash-loops-ignored", "a crash-looping version goes on until the deadline", plan,
		"pod := node.crashLooping(slot.Since); pod != nil", "pod := node.crashLooping(slot.Since); pod != nil && p.touched < 0"},
	{"failures-stick", "a new revision does not forget the failures of the old one", plan,
		"p.in.Resume != p.in.Ledger.Resumed || p.in.Ledger.Revision != p.in.Revision ||", "p.in.Resume != p.in.Ledger.Resumed ||"},
	{"members-at-once", "pods of a node are replaced without waiting for the one before", node,
		"if f.isOutdated(pod) || pod.Available {", "if true {"},
	{"ota-by-itself", "under OTA nodes start though nobody asked", plan,
		"return pod.Request != nil && pod.Request.PodUID == pod.UID", "return true"},
	{"request-for-any-pod", "a request replaces the successor of the pod it named", plan,
		"return pod.Request != nil && pod.Request.PodUID == pod.UID", "return pod.Request != nil"},
	{"waves-ignored", "later waves start at once", waves,
		"if node.available() && node.wave > p.waves.reached {", "if node.wave > p.waves.reached+100 {"},
	{"waves-deadlock", "an unavailable node of a later wave blocks all", waves,
		"if node.available() && node.wave > p.waves.reached {", "if node.wave > p.waves.reached {"},
	{"pools-ignored", "the budget of a pool is not kept", start,
		"inPool >= pool.limit", "inPool >= pool.limit+100"},
	{"window-ignored", "nodes start outside of the maintenance window", window,
		"if !open {", "if !open && left < 0 {"},
	{"ledger-after-touch", "pods are deleted although the ledger was not stored", updater + "reconciler.go",
		"	wait, err = r.store(ctx, o, in, d)\n	if err != nil {", "	wait, err = r.store(ctx, o, in, d)\n	if err != nil && ctx.Err() != nil {"},
	{"no-uid-precondition", "a deletion may hit a successor of the same name", updater + "act.go",
		"r.Delete(ctx, pod, client.Preconditions{UID: &d.UID})", "r.Delete(ctx, pod)"},
	{"no-recheck", "a DaemonSet that opted out a moment ago loses pods", updater + "act.go",
		"return err1 == nil && err2 == nil && before == now", "return err1 == nil || err2 == nil || before == now"},
	{"rollback-not-stored-first", "a rollback begins before the intent is in the ledger", updater + "ledger.go",
		"len(stored.Failed) != len(next.Failed) || !sameMemory(stored, next)", "len(stored.Failed) != len(next.Failed)"},
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
