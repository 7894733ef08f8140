package main

// ofFences are defects by which a slot ends while the deletion that it names can still happen.
var ofFences = []mutant{
	{"slot-back-unfenced", "a slot is released while the pod it names can still be deleted", updater, "fence.isRuledOut",
		"len($Members) == 0", "len($Members) >= 0"},
	{"slot-of-ended-unfenced", "a slot is released after an operation without a result while the pod it names can still be deleted", updater, "slotReview.reviewNotDone",
		"!$counts && $keepsSlot($slot, $n, $end) || !$isRuledOut($slot, $n)", "!$counts && $keepsSlot($slot, $n, $end)"},
	{"slot-of-failed-unfenced", "a node fails while the pod that its slot names can still be deleted", updater, "slotReview.keepUntilDeadline",
		"$failure == nil || !$isRuledOut($slot, $n)", "$failure == nil"},
	{"slot-of-operation-unfenced", "a slot is changed to an operation while the pod it names can still be deleted", updater, "slotReview.operateOn",
		"$otherwise || !$isRuledOut($slot, $n)", "$otherwise"},
	{"slot-of-forgotten-unfenced", "a slot whose operation is forgotten is released while the pod it names can still be deleted", updater, "slotReview.reviewNotEnded",
		"!$s.fence.isRuledOut($slot, $n)", "false"},
	{"fenced-and-operated", "an operation is created under a slot that is about to be released", updater, "isOperated",
		"$operating && !$d.isNotCreated($slot, $n)", "$operating"},
	{"fenced-and-deleted", "a pod is deleted under a slot that is about to be released", updater, "nextDeletions",
		"!$mayReplacePods($n, $slot) || $fencing", "!$mayReplacePods($n, $slot)"},
	{"fenced-twice", "a pod is fenced twice in a pass", updater, "fence.isRuledOut",
		"!$Terminating && !$n.fencing", "!$Terminating"},
	{"terminating-not-ruled-out", "a node whose slot was corrected to a pod that never ends does not fail", updater, "fence.isRuledOut",
		"return pod.Terminating", "return false"},
	{"slot-renamed-unfenced", "a slot is changed to another pod while the first can still be deleted", updater, "mayChoosePod",
		"$Pod != $UID", `$Pod == ""`},
	{"released-unfenced", "a rollout is deleted while a pod that it names can still be deleted", updater, "steps.release",
		"if $p.HoldsSlot() { $*then }", "if false { $*then }"},
}
