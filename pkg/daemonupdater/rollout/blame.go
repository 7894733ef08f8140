package rollout

import "slices"

// toBlame returns the revisions that may have made the node of a slot fail: that of the member
// whose pod was replaced last, because those before it had to be available first. After an operation
// they are those of all its members, because it replaces pods in an order of its own. If nothing was replaced under the slot,
// they are those that were before it.
func toBlame(slot *Slot, n *fleetNode) []Target {
	if slot.Pod == "" {
		return n.group.targetsOf(slot.Members)
	}
	replaced := replacedUnder(slot, n)
	for i, member := range slices.Backward(replaced) {
		if !slices.ContainsFunc(n.Pods, func(pod Pod) bool { return pod.isAside() && n.group.keyOf(&pod) == member }) {
			return n.group.targetsOf(replaced[i : i+1])
		}
	}
	if before := blamedBefore(n); len(before) > 0 {
		return before
	}
	return n.group.targetsOf(slot.Members)
}

// blamedBefore returns the revisions that may be why pods of a node do not work that were replaced under earlier slots.
func blamedBefore(n *fleetNode) (blamed []Target) {
	for i := range n.Pods {
		pod := &n.Pods[i]
		if _, replaced := n.Replaced[n.group.keyOf(pod)]; !replaced || !n.group.isMoving(pod) {
			continue
		}
		for _, t := range blamedFor(n.group, &n.Node, pod) {
			if !slices.Contains(blamed, t) {
				blamed = append(blamed, t)
			}
		}
	}
	return blamed
}

// blamedFor returns the revisions that may be why a pod of a node does not work: its own, or those that an operation changed
// that replaced the pod along, at the revision that it had. None if these are no longer the targets, or if the node was kept at
// an earlier one: then the pod proves nothing.
func blamedFor(g *group, node *Node, pod *Pod) []Target {
	own, changed := g.targetsOf([]string{g.keyOf(pod)}), changedBefore(g, node, pod)
	switch {
	case len(changed) == 0 || g.isOutdated(pod) || slices.ContainsFunc(changed, func(t Target) bool { return t.Member == g.keyOf(pod) }):
		return own
	case !g.haveTargets(changed) || len(lastDone(node).Left) > 0:
		return nil
	}
	return changed
}

// changedBefore returns the revisions of members of the group to which the last operation that is done brought a node, if a pod
// was created before its end; none if they are not known.
func changedBefore(g *group, node *Node, pod *Pod) (changed []Target) {
	last := lastDone(node)
	if last == nil || pod.Created.After(last.Time) {
		return nil
	}
	for _, t := range last.Targets {
		if slices.ContainsFunc(g.members, func(m Member) bool { return m.Key == t.Member }) {
			changed = append(changed, t)
		}
	}
	return changed
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

// concerns reports whether a pod of a node may be why it failed.
func (f *Failure) concerns(n *fleetNode, pod *Pod) bool {
	blamed := func(t Target) bool {
		return slices.ContainsFunc(f.Targets, func(of Target) bool { return of.Member == t.Member })
	}
	return blamed(Target{Member: n.group.keyOf(pod)}) ||
		f.Reason == ReasonCrashLooping && slices.ContainsFunc(blamedFor(n.group, &n.Node, pod), blamed)
}
