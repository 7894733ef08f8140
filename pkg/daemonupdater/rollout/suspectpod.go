package rollout

import (
	"slices"
	"time"
)

// A version may take its node offline, or stop working, some time after its pod was available and the node gave its slot
// back. The pod that may have done that is the suspect of the node. One that waits at the gate has done nothing yet.

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
		fits := !pod.runsNothing() && !pod.Gated && !node.ReadyWritten.Before(pod.Created) && !node.ReadyWritten.After(pod.Created.Add(g.deadlines.Probation))
		if fits && (suspect == nil || pod.Created.After(suspect.Created)) {
			suspect = pod
		}
	}
	return suspect
}

// notWorkingSince returns a pod of a Ready node that was replaced under a slot and has not been Ready since some time after that,
// preferably one that crash-loops; nil if there is none. A pod that was not Ready before the node was, or on a node on which an
// operation has ended since, proves nothing.
func notWorkingSince(g *group, node *Node) (suspect *Pod) {
	for i := range node.Pods {
		pod := &node.Pods[i]
		end, replaced := node.Replaced[g.keyOf(pod)]
		fails := replaced && !pod.isAbsent() && !pod.Gated && pod.isUnready() && !pod.NotReadySince.Before(end.Add(-writtenEarly)) && !pod.NotReadySince.Before(node.ReadySince) &&
			!g.isOutdated(pod) && pod.Pin == "" && !isOperatedOnSince(node, end)
		if fails && (suspect == nil || pod.CrashLooping != "" && suspect.CrashLooping == "") {
			suspect = pod
		}
	}
	return suspect
}

// crashesOfLoop is how often a container crashes until that is a crash loop.
const crashesOfLoop = 4

// Blamed returns how long after its slot ended a pod may stop working at the latest to be blamed.
func (d Deadlines) Blamed() time.Duration { return crashesOfLoop * d.Progress }

// blamed returns how long after its slot ended a pod may stop working to be blamed. If it crash-loops, each of its containers'
// runs may last that long.
func (d Deadlines) blamed(pod *Pod) time.Duration {
	if pod.CrashLooping != "" && pod.Ran < d.Progress {
		return d.Blamed()
	}
	return d.Progress
}

// writtenEarly is how much too early a time may be that is written in whole seconds.
const writtenEarly = time.Second

// isOperatedOnSince reports whether an operation of any group that touched the node has ended after a time.
func isOperatedOnSince(n *Node, at time.Time) bool {
	return slices.ContainsFunc(n.Ended, func(e End) bool { return e.Touched && e.Time.After(at) })
}

// unsettledUntil returns until when a node is unsettled, if nothing changes; zero if it is not. It is while a pod that was replaced
// lately, or whose containers run only briefly, is not Ready, or was not shortly before. What stopped working before its node went
// offline is not Ready, too.
func unsettledUntil(g *group, node *Node, now time.Time) (until time.Time) {
	for i := range node.Pods {
		pod := &node.Pods[i]
		settled := node.Replaced[g.keyOf(pod)].Add(g.deadlines.Progress)
		brief := pod.Ran < g.deadlines.Progress && !g.isOutdated(pod) && pod.Pin == ""
		switch {
		case !pod.isUnready() && brief:
			settled = pod.ReadyAgain.Add(max(g.deadlines.Probation, 2*pod.Ran))
		case !pod.isUnready():
			settled = earlier(settled, pod.ReadyAgain.Add(g.deadlines.Probation))
		case brief && pod.Ran > 0:
			settled = later(settled, pod.NotReadySince.Add(g.deadlines.Progress))
		}
		if settled.After(now) {
			until = later(until, settled)
		}
	}
	return until
}

// isNextAlong reports whether a pod came with the driver that its node has, or soon after it, and an operation is to bring the node to another
// driver, which may cure the pod, and replaces it along. Both were created by the clock of the API server.
func isNextAlong(g *group, node *Node, pod *Pod) bool {
	if !g.members[pod.Member].ReplacedWithOthers || g.isOutdated(pod) {
		return false
	}
	return slices.ContainsFunc(node.Pods, func(p Pod) bool {
		m := &g.members[p.Member]
		return m.Heavy && !m.Restarts && !pod.Created.After(p.Created.Add(g.deadlines.Progress)) && g.isOutdated(&p) && g.toReplace(node, &p)
	})
}
