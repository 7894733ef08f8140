package main

// ofSizes are rollouts whose ledger becomes too large to be stored.
var ofSizes = []mutant{
	{"ledger-unlimited", "the ledger of a rollout may become too large to be stored", updater, "budgetsOf",
		"min($limit, maxInFlight(d))", "$limit"},
	{"ledger-failures-free", "failed nodes take no room in the ledger", updater, "bytesForSlots",
		"left -= $size", "left -= 0 * $size"},
	{"unrecorded-forgiven", "nodes that the ledger has no room for do not count for a halt", updater, "haltOf",
		"failed := len(l.Failures) + unrecorded", "failed := len(l.Failures)"},
	{"suspects-unlimited", "nodes that went offline fill the ledger", updater, "addSuspects",
		"if $room -= $size; $room < 0 { $*then }", "if $room -= $size; $room < -1<<40 { $*then }"},
	{"long-names-free", "the length of the names of nodes does not count", updater, "Fleet.longestName",
		"longest = max(longest, length)", "longest = min(longest, length)"},
	{"long-messages", "messages of any length are stored", updater, "storeLedger",
		"note.Message = message.Short(note.Message, maxMessage)", "note.Message = message.Short(note.Message, 1<<20)"},
}
