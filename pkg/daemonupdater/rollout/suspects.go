package rollout

import (
	"fmt"
	"time"
)

// addSuspects adds failures for nodes that gave their slot back, and have failed since. Those that the ledger has no room
// for are only counted: they are found again as long as they are offline, or not available.
func addSuspects(d *draft) {
	room := bytesForSlots(d) - len(d.ledger.Slots)*largestSlot(d)
	d.fleet.suspects.Ascend(func(n *Node) bool {
		if n.failure != nil || !d.suspects(n) {
			return true
		}
		failure := Failure{Node: n.Name, UID: n.UID, Since: d.in.Now, Requested: n.Requested, Machine: n.Machine, Targets: blamedFor(n.group, n, n.suspect)}
		if len(failure.Targets) == 0 {
			return true
		}
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

// suspects reports whether a node that has a suspect pod may have failed because of this rollout: it has no slot, and has failed
// since the rollout was last resumed. A Ready node failed within the progress deadline after its slot ended, or crashed again and again since. An offline one did
// not join long after a node was last started or finished. A pod from the future shows that the manager's clock, by which that was
// recorded, is behind that of the API server.
func (d *draft) suspects(n *Node) bool {
	if n.Ready {
		since := n.Replaced[n.group.keyOf(n.suspect)]
		return n.slot == nil && !n.queued && !n.isBusy() && n.suspect.NotReadyEarliest.After(d.ledger.ResumedAt) && !n.suspect.NotReadySince.After(since.Add(d.in.Deadlines.blamed(n.suspect)))
	}
	last := later(d.ledger.LastStart, d.ledger.LastProgress) // a slot may last longer than the deadline
	joinedLater := n.suspect.Created.After(last.Add(d.in.Deadlines.Progress)) && !n.suspect.Created.After(d.in.Now)
	return n.slot == nil && n.ReadyEarliest.After(d.ledger.ResumedAt) && !joinedLater
}

// sentence returns how a node with a suspect pod failed, and the time that is left until then.
func (d *draft) sentence(n *Node) (reason Reason, message string, left time.Duration) {
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
