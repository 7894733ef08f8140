package main

// ofRestored are memories that are ahead of a cluster whose etcd was restored from a backup.
var ofRestored = []mutant{
	{"deleted-for-ever", "a deletion that a restored backup took back is never made again", updater, "attempt.due",
		"$a.deleted.Add(Unseen)", "$a.deleted.Add(9000*time.Hour)"},
	{"ledger-from-memory", "a ledger that a restored backup took back is kept in memory", updater, "ledgerStore.isUndone",
		"$err != nil || $live.UID != $last.rollout.UID || !equality.Semantic.DeepEqual($live.Status, $last.rollout.Status)", "$err != nil || $live.UID != $last.rollout.UID"},
}
