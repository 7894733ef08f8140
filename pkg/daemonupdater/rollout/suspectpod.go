package rollout

import "slices"

// A version may take its node offline, or stop working, some time after its pod was available and the node gave its slot
// back. The pod that may have done that is the suspect of the node.

// suspectOf returns the suspect of a node, nil if there is none. updated: nothing is left to do on the node.
func suspectOf(g *group, node *Node, updated bool) *Pod {
	switch {
	case node.Ready:
		return notWorkingSince(g, node)
	case !updated || g.deadlines.Probation == 0:
		return nil
	}
	return madeBeforeOutage(g, node)
}

// madeBeforeOutage returns the youngest pod that was created shortly before a node went offline, nil if none was: a pod is
// replaced only after those before it are available.
func madeBeforeOutage(g *group, node *Node) (suspect *Pod) {
	for i := range node.Pods {
		pod := &node.Pods[i]
		fits := !pod.isAside() && !node.ReadyWritten.Before(pod.Created) && !node.ReadyWritten.After(pod.Created.Add(g.deadlines.Probation))
		if fits && (suspect == nil || pod.Created.After(suspect.Created)) {
			suspect = pod
		}
	}
	return suspect
}

// notWorkingSince returns a pod of a Ready node that was replaced under its last slot and is no longer Ready, preferably one that
// crash-loops; nil if there is none. A pod that was not Ready before the node was proves nothing.
func notWorkingSince(g *group, node *Node) (suspect *Pod) {
	if node.LastSlot.End.IsZero() {
		return nil
	}
	for i := range node.Pods {
		pod := &node.Pods[i]
		fails := !pod.isAbsent() && pod.isUnready() && !pod.NotReadySince.Before(node.ReadySince) &&
			!g.isOutdated(pod) && pod.Pin == "" && slices.Contains(node.LastSlot.Members, g.keyOf(pod))
		if fails && (suspect == nil || pod.CrashLooping != "" && suspect.CrashLooping == "") {
			suspect = pod
		}
	}
	return suspect
}
