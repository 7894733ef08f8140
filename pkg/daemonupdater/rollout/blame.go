package rollout

import (
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// toBlame returns the revisions that may have made the node of a slot fail: that of the member
// whose pod was replaced last, because those before it had to be available first. After an operation
// they are those that it changed, because it replaces pods in an order of its own. If nothing was replaced under the slot,
// they are those that were before it.
func toBlame(slot *Slot, n *Node) []Target {
	if slot.Pod == "" {
		return changedBy(slot, n)
	}
	replaced := replacedUnder(slot, n)
	for i, member := range slices.Backward(replaced) {
		if !slices.ContainsFunc(n.Pods, func(pod Pod) bool { return pod.runsNothing() && n.group.keyOf(&pod) == member }) {
			return n.group.targetsOf(replaced[i : i+1])
		}
	}
	if before := blamedBefore(n); len(before) > 0 {
		return before
	}
	return n.group.targetsOf(slot.Members)
}

// changedBy returns the revisions that the operation of a slot changed, or those of all members of the slot if that is not known, or they
// are no longer the targets. On a node that was kept cordoned, an operation is also for members that worked before.
func changedBy(slot *Slot, n *Node) []Target {
	if end := endOf(slot.Operation, n.Ended); end != nil {
		if changed := targetsAmong(n.group.members, end); len(changed) > 0 && n.group.haveTargets(changed) {
			return changed
		}
	}
	return n.group.targetsOf(slot.Members)
}

// blamedBefore returns the revisions that may be why pods of a node do not work that were replaced under earlier slots.
func blamedBefore(n *Node) (blamed []Target) {
	for i := range n.Pods {
		pod := &n.Pods[i]
		if _, replaced := n.Replaced[n.group.keyOf(pod)]; !replaced || !n.group.isMoving(pod) {
			continue
		}
		for _, t := range blamedFor(n.group, n, pod) {
			if !slices.Contains(blamed, t) {
				blamed = append(blamed, t)
			}
		}
	}
	return blamed
}

// blamedFor returns the revisions that may be why a pod of a node does not work: its own, or those that an operation changed
// that replaced the pod along. None if these are not known or no longer the targets, or if the node was kept at an earlier one, or
// has one that an operation is to replace the pod along with: then the pod proves nothing.
func blamedFor(g *group, node *Node, pod *Pod) []Target {
	if isNextAlong(g, node, pod) {
		return nil
	}
	end := replacedAlongBy(g, node, pod)
	if end == nil {
		return g.targetsOf([]string{g.keyOf(pod)})
	}
	if changed := targetsAmong(g.members, end); g.haveTargets(changed) && len(end.Left) == 0 {
		return changed
	}
	return nil
}

// isNewerThan reports whether a pod was created after an operation had ended, by clocks that may differ by a time.
func isNewerThan(end *End, pod *Pod, skew time.Duration) bool {
	return pod.Created.After(end.Time.Add(skew))
}

// replacedAlongBy returns the end of the operation that replaced a pod of a node along with others, at the revision that it had;
// nil if none did. If it is not known what the operation changed, it did if it always does.
func replacedAlongBy(g *group, node *Node, pod *Pod) *End {
	end := lastDone(node)
	if end == nil || g.isOutdated(pod) || isNewerThan(end, pod, daemonset.MaxSkew) {
		return nil
	}
	changed, key := targetsAmong(g.members, end), g.keyOf(pod)
	is := len(changed) > 0 && end.wasThere(pod, key) && !slices.ContainsFunc(changed, func(t Target) bool { return t.Member == key })
	if is || len(end.Targets) == 0 && g.members[pod.Member].ReplacedWithOthers {
		return end
	}
	return nil
}

// wasThere reports whether a pod of a member was on the node when the operation ended. If it is known at which revision the operation left
// the member, that shows it, whatever the clocks say: another pod of that revision worked there before, too. Of a member that was no target
// of the operation no revision is known, and the clocks decide, which may differ.
func (e *End) wasThere(pod *Pod, key string) bool {
	if i := slices.IndexFunc(e.Along, func(t Target) bool { return t.Member == key }); i >= 0 {
		return e.Along[i].Revision == pod.Revision
	}
	return !isNewerThan(e, pod, 0)
}

// targetsAmong returns the revisions of these members that an operation was for.
func targetsAmong(members []Member, end *End) []Target {
	return slices.DeleteFunc(slices.Clone(end.Targets), func(t Target) bool {
		return !slices.ContainsFunc(members, func(m Member) bool { return m.Key == t.Member })
	})
}

// lastDone returns the end of the last operation of any group that changed a node and was done, nil if there is none.
func lastDone(node *Node) *End {
	for i := range slices.Backward(node.Ended) {
		if end := &node.Ended[i]; end.Done && end.Touched {
			return end
		}
	}
	return nil
}

// concerns reports whether a pod of a node may be why it failed. One that crash-loops, and that another driver may cure, is not to keep the
// node from that.
func (f *Failure) concerns(n *Node, pod *Pod) bool {
	switch {
	case f.Reason != ReasonCrashLooping:
		return f.blames(n.group.keyOf(pod))
	case isNextAlong(n.group, n, pod):
		return false
	case f.blames(n.group.keyOf(pod)):
		return true
	}
	end := replacedAlongBy(n.group, n, pod)
	return end != nil && (len(end.Targets) == 0 || slices.ContainsFunc(end.Targets, func(t Target) bool { return f.blames(t.Member) }))
}
