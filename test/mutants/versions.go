package main

// ofVersions are defects in which versions a node may get (spec.versions of an UpgradePolicy).
var ofVersions = []mutant{
	{"versions-any-start", "a node is held up for another reason than the versions that it may not get", updater, "facts.exclusion",
		"$f.notAllowed != $none", "false"},
	{"versions-any-in-slot", "a pod is replaced by a version that is not allowed", updater, "group.toReplace",
		"$ok && (!$outdated || $pinned || $allowed)", "$ok"},
	{"versions-hold-wave", "a node that may not get its versions holds up its wave", updater, "nodeCounts.unfinished",
		"$left -= c.byPhase[$p]", "if $p != phaseVersionNotAllowed { $left -= c.byPhase[$p] }"},
	{"versions-stop-rollback", "the versions of a policy keep a rollback from starting", updater, "State.Input",
		"if $purpose == topsv1.PurposeRollback { $*then }", "if false { $*then }"},
	{"versions-back-up", "a step that is taken back leads to newer versions", tasks, "step.leads",
		"to.LT(from) && $rest", "$rest"},
	{"versions-unknown-allowed", "a version that cannot be compared counts as the lowest", tasks, "Policy.refuseStep",
		"case !comparable: $*then", "case !comparable && r == nil: $*then"},
	{"versions-of-all-checked", "an upgrade is refused because of what it does not change", tasks, "fit.concerns",
		"if $c.Changes { $*then }", "if true { $*then }"},
	{"versions-one-refuses-all", "an upgrade is refused because of one node that may not get it", foretold, "Rollout.Refused",
		"len($refused) == 0 || len($r.Nodes) > 0", "len($refused) == 0"},
	{"versions-uncached", "the cache of a manager does not keep the image of a pod", cached, "trimSpecs",
		"[]corev1.Container{{Image: $image}}", "[]corev1.Container{{}}"},
	{"kernel-uncached", "the cache of a manager does not keep the kernel of a node", cached, "trimNode",
		"corev1.NodeSystemInfo{MachineID: $machine, KernelVersion: $kernel}", "corev1.NodeSystemInfo{MachineID: $machine}"},
	{"tasks-uncached", "the cache of a manager does not keep which tasks earlier operations ran", cached, "trimNodeUpgrade",
		"tasks[$j] = names[$name]", `tasks[$j] = ""`},
}
