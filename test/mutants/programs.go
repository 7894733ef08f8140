package main

// ofPrograms are defects in the programs themselves: their flags and what they start.
var ofPrograms = []mutant{
	{"token-not-asked-for", "--ota-auth=token lets everyone on the node in", programs, "openTCP",
		"$door.Caller = guard.Bearer($token)", "_ = $token"},
	{"operator-unknown-to-itself", "a drain evicts the operator in the middle of its work", programs, "selfFromEnvironment",
		`os.Getenv("POD_NAME")`, `os.Getenv("NODE_NAME")`},
	{"empty-list-is-all", "--nodes without a name upgrades all nodes", programs, "limit.cut",
		`len($list) == 0 || slices.Contains($list, "")`, `slices.Contains($list, "")`},
	{"exit-0-though-withdrawn", "a script takes an operation that was withdrawn for done", programs, "watch",
		"$last.State != $wanted", "$last.State == request.Failed"},
}
