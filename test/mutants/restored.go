package main

// ofRestored are memories that are ahead of a cluster whose etcd was restored from a backup.
var ofRestored = []mutant{
	{"deleted-for-ever", "a deletion that a restored backup took back is never made again", updater, "attempt.due",
		"$a.deleted.Add(Unseen)", "$a.deleted.Add(9000*time.Hour)"},
	{"ledger-from-memory", "a ledger that a restored backup took back is kept in memory", updater, "ledgerStore.isUndone",
		"$err != nil || $live.UID != $last.rollout.UID || !equality.Semantic.DeepEqual($live.Status, $last.rollout.Status)", "$err != nil || $live.UID != $last.rollout.UID"},
	{"cut-ledger", "a ledger is stored though the API server drops a part of it", updater, "ledgerStore.write",
		"$l.Status().Update($ctx, $next, access.Whole)", "$l.Status().Update($ctx, $next)"},
	{"older-goes-on", "a manager goes on when its CRDs are replaced by older ones", programs, "crdGuard.Start",
		"!errors.As($g.lacks($ctx), &$older)", "true"},
	{"reversed-for-ever", "a slot waits for a version of a pod that a restored backup took back", updater, "isReversed",
		"slices.ContainsFunc($live, $seen) && !$named", "false && !$named"},
	{"reversed-by-another", "a slot waits for a version that a restored backup took back and another pod has now", updater, "Fleet.Reversed",
		"isOlder($v, $named) || $another && $same", "isOlder($v, $named)"},
	{"reversed-by-cache", "a slot names a pod that is not there any more because the cache is behind", updater, "isReversed",
		"slices.ContainsFunc($live, $seen) && !$named", "!$named"},
	{"reversed-beside", "a slot does not name its pod any more, which is there beside another one", updater, "isReversed",
		"slices.ContainsFunc($live, $seen) && !$named", "slices.ContainsFunc($live, $seen)"},
}
