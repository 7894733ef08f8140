package main

// ofHosts are defects in what the node agent does to its host, and in what it remembers of it.
var ofHosts = []mutant{
	// The host.
	{"restart-unrecorded", "the runtime is restarted again by an agent that was killed in the middle", hosts, "restarter.attempt",
		"if $err := $s.records.put($r); $err != nil { return $r, $err }", ""},
	{"restart-in-progress-dropped", "the record of a restart in progress is removed, and the restart repeated", hosts, "Superfluous",
		"$r.Begun == nil || $r.Final()", "true"},
	{"password-told", "a malformed pull secret is quoted in the status", hosts, "credentialsFor",
		`fmt.Errorf("pull secret %s/%s cannot be read", $*of)`, `fmt.Errorf("pull secret %s/%s cannot be read: %w", $*of, err)`},
	{"password-elsewhere", "the password of a registry is sent to any port of its host", hosts, "covers",
		"$keyPort != $port || len($keyParts) != len($parts)", `$keyPort != "" && $keyPort != $port || len($keyParts) != len($parts)`},
	{"holders-all-visible", "processes that the agent may not look at count as having no device open", hosts, "processes.holders",
		"$visible = false", "_ = $visible"},
	{"holders-of-pods-first", "processes of pods crowd out the one that blocks an upgrade", hosts, "DeviceHoldersOf",
		"cmp.Compare(len($a.PodUID), len($b.PodUID))", "cmp.Compare(len($b.PodUID), len($a.PodUID))"},
	{"another-unit-restarted", "while the containerd of k3s restarts, the unit of another one is asked and restarted", hosts, "host.containerd",
		"$h.exists(path.Dir($d.Socket))", "$h.exists(path.Clean($d.Socket))"},
	{"links-of-the-agent", "an absolute link of the host leads into the agent's container: docker is restarted in the place of k3s", hosts, "resolve",
		"return $path, nil", "return filepath.Join(hostRoot, relative, $path[:0]), nil"},
	{"template-unread", "what k3s will make its configuration from is not read", hosts, "templateDefault",
		"string($match[1])", `""`},
	{"server-started", "a worker of RKE2 is made a server", hosts, "unitThatRuns",
		`$state == "active" || unitBusy($*p)`, `$state != "inactive"`},

	{"deadline-by-a-former-clock", "a restart of which the clock of the node was set back meanwhile has that much longer", hosts, "Begun.Within",
		"$b.Deadline.After($latest)", "false && $b.Deadline.After($latest)"},
	{"fresh-by-a-former-clock", "an agent whose clock was set back waits that long for a configuration that nobody writes", hosts, "restarter.observe",
		"$clock.Since($started).Abs() < $patience", "$clock.Since($started) < $patience"},

	// The tasks of an operation.
	{"unreadable-secret-fails", "an image whose pull secret only the kubelet may read fails its operation", hosts, "puller.prepull",
		"request.Prepull.LeaveToKubelet || $un", "$un"},
	{"asked-pull-left", "a pull that somebody asked for succeeds without the image", hostTasks, "Worker.Pull",
		"o.Prepull.LeaveToKubelet, $u = false, false", "$u = false"},
	{"restart-though-forbidden", "--restart-runtime=false is ignored", hostTasks, "Task.Request",
		"Allowed: $restartAllowed", "Allowed: true"},
	{"refusal-unreported", "a task that the host refuses is waited for without a word", hostTasks, "runner.do",
		"$err != nil && !$interrupted", "$err != nil && !$interrupted && r == nil"},
	{"restored-operation-done", "an operation of a restored backup is carried out again", hostTasks, "Task.Outdated",
		"$r.Since.Sub($t.Since) > clockSkew", "$t.Since.Sub($r.Since) > clockSkew"},
	{"restart-ended", "a restart that has begun is ended with its operation, and its result is lost", hostTasks, "runner.endUnrequestedPulls",
		"!$wanted && $action == upgradeplan.ActionPrepull", "!$wanted && ($action == upgradeplan.ActionPrepull || $action == upgradeplan.ActionRestartRuntime)"},

	// What survives the agent.
	{"value-unsynced", "a power failure leaves a torn record", journals, "Journal.write",
		"if $err = $j.sync($file); $err != nil { $*then }", ""},
	{"rename-unsynced", "a power failure takes back a record that was reported as stored", journals, "Journal.Change",
		"return $j.syncDirectory()", "return nil"},
	{"lost-for-one-start", "a record that is lost is new to the second agent after that", journals, "Journal.list",
		"strings.TrimSuffix($name, corruptSuffix)", "$name"},
	{"removed-comes-back", "a removed record comes back as it was before its last change", journals, "Journal.Change",
		"$j.generations($id)", "$j.generations($id)[:1]"},
	{"removed-newest-first", "a removal that is interrupted leaves a record as it was before its last change", journals, "Journal.Change",
		"slices.Backward($names)", "slices.All($names)"},
}
