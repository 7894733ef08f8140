package main

// ofPrograms are defects in the programs themselves: their flags and what they start.
var ofPrograms = []mutant{
	{"token-not-asked-for", "--ota-auth=token lets everyone on the node in", programs, "openTCP",
		"$door.Caller, $door.Prove = guard.Bearer($token), guard.Prover($token)", "$door.Prove = guard.Prover($token)"},
	{"port-stops-agent", "a process on the agent's port stops the agent", agent, "ListenTCP",
		"case errors.Is($err, syscall.EADDRINUSE): $*then", `case errors.Is($err, syscall.EADDRINUSE) && address == "": $*then`},
	{"proof-passed-on", "a process on another address passes the challenge on to the agent", agent, "Proof",
		`"gcu-node-agent\n" + $address + "\n" + $challenge`, `"gcu-node-agent\n" + $challenge`},
	{"token-shown-first", "the token is sent without a proof of who answers", programs, "verifier.check",
		"!hmac.Equal([]byte($got), []byte($want))", `$want == "" && !hmac.Equal([]byte($got), nil)`},
	{"operator-unknown-to-itself", "a drain evicts the operator in the middle of its work", programs, "selfFromEnvironment",
		`os.Getenv("POD_NAME")`, `os.Getenv("NODE_NAME")`},
	{"empty-list-is-all", "--nodes without a name upgrades all nodes", programs, "limit.cut",
		`len($list) == 0 || slices.Contains($list, "")`, `slices.Contains($list, "")`},
	{"profiles-open", "profiles are served to everybody", "cmd/manager", "options.validate",
		"guard.Address($o.pprofAddr, false)", "guard.Address($o.pprofAddr, true)"},
	{"metrics-plain", "the metrics are served without TLS", programs, "metricsOptions.bindFlags",
		`flags.BoolVar(&$o.secure, "metrics-secure", true, $help)`, `flags.BoolVar(&$o.secure, "metrics-secure", false, $help)`},
	{"metrics-other-certificate", "a mistake in the path of the certificate goes unnoticed", programs, "metricsOptions.server",
		`$o.certDir != ""`, `$o.certDir == "/"`},
	{"policy-taken-for-role", "the plugin says that patch is missing where a policy wants another verb", programs, "explain",
		"strings.Contains($err.Error(), policyDenied)", "strings.Contains($err.Error(), policyDenied+policyDenied)"},
	{"exit-0-though-withdrawn", "a script takes an operation that was withdrawn for done", programs, "watch",
		"$last.State != $wanted", "$last.State == request.Failed"},
}
