package rollout

import (
	"fmt"
	"slices"
	"time"
)

// A version may take its node offline, or stop working, some time after its pod was available and the node gave its slot
// back. The pod that may have done that is the suspect of the node.

// suspectOf returns the suspect of a node, nil if there is none.
func (f *facts) suspectOf(g *group, node *Node) *Pod {
	switch {
	case node.Ready:
		return notWorkingSince(g, node)
	case f.phase != phaseUpdated || g.deadlines.Probation == 0:
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

// addSuspects adds failures for nodes that gave their slot back, and have failed since. Those that the ledger has no room
// for are only counted: they are found again as long as they are offline, or not available.
func addSuspects(d *draft) {
	room := bytesForSlots(d) - len(d.ledger.Slots)*largestSlot(d)
	d.fleet.suspects.Ascend(func(n *fleetNode) bool {
		if n.failure != nil || !d.suspects(n) {
			return true
		}
		failure := Failure{Node: n.Name, UID: n.UID, Since: d.in.Now, Requested: n.Requested, Machine: n.Machine, Targets: n.group.targetsOf([]string{n.group.keyOf(n.suspect)})}
		var left time.Duration
		if failure.Reason, failure.Message, left = d.sentence(n); left > 0 {
			d.recheckIn(left)
			return true
		}
		if room -= sizeOf(&failure); room < 0 {
			d.unrecorded++
			return true
		}
		d.ledger.Failures = append(d.ledger.Failures, failure)
		return true
	})
}

// suspects reports whether a node that has a suspect pod may have failed because of this rollout: it
// has no slot, and the rollout was not resumed since. A Ready node failed within the progress deadline after it gave its slot
// back. An offline one did not join long after the last start. A pod from the future shows that the manager's clock, by which
// the last start was recorded, is behind that of the API server.
func (d *draft) suspects(n *fleetNode) bool {
	if n.Ready {
		since := n.LastSlot.End
		return n.slot == nil && !n.queued && !n.isBusy() && since.After(d.ledger.ResumedAt) && !n.suspect.NotReadySince.After(since.Add(d.in.Deadlines.Progress))
	}
	joinedLater := n.suspect.Created.After(d.ledger.LastStart.Add(d.in.Deadlines.Progress)) && !n.suspect.Created.After(d.in.Now)
	return n.slot == nil && n.ReadySince.After(d.ledger.ResumedAt) && !joinedLater
}

// sentence returns how a node with a suspect pod failed, and the time that is left until then.
func (d *draft) sentence(n *fleetNode) (reason Reason, message string, left time.Duration) {
	pod := n.suspect
	switch {
	case !n.Ready: // it may only flap
		return ReasonNodeLost, fmt.Sprintf("went offline %s after its new pod %s was created", n.ReadyWritten.Sub(pod.Created), pod.Name),
			n.ReadySince.Add(d.in.Deadlines.Unavailable).Sub(d.in.Now)
	case pod.CrashLooping != "":
		return ReasonCrashLooping, crashMessage(pod), 0
	}
	return ReasonProgressDeadlineExceeded, fmt.Sprintf("its new pod %s was available, and then not for %s", pod.Name, d.in.Deadlines.Progress),
		pod.NotReadySince.Add(d.in.Deadlines.Progress).Sub(d.in.Now)
}

func crashMessage(pod *Pod) string {
	return fmt.Sprintf("container %s of pod %s crash-loops", pod.CrashLooping, pod.Name)
}
