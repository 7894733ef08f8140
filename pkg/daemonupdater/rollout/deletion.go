package rollout

// nextDeletions records in each slot which pod to delete next, if any, and returns these pods. A
// node that may be available waits for its turn.
func nextDeletions(d *draft, limit int) (pods []Pod) {
	turns := d.ledger.turns()
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		if !mayReplacePods(n, slot) || n.fencing { // what is fenced is not to be deleted any more
			continue
		}
		early := turns.beside(slot) >= limit
		if early && n.mayBeAvailable() {
			continue
		}
		pod := n.nextPod()
		if !mayChoosePod(&d.fence, slot, n, pod) {
			continue
		}
		if slot.Pod != "" && slot.Pod != pod.UID {
			d.progressed(d.in.Now)
		}
		setPod(slot, n, pod, d.in.Now)
		if early {
			d.hurry(n)
		}
		pods = append(pods, *pod)
	}
	return pods
}

// hurry records that a node has its turn early, and which of its members let it, none if only something else does.
func (d *draft) hurry(n *Node) {
	if d.unready == nil {
		d.unready = map[string][]int{}
	}
	d.unready[n.Name] = membersWith(n.Pods, (*Pod).isUnready)
}

// mayReplacePods reports whether pods of a node, nil if it is gone, may be deleted under its slot: no operation is at work
// there, nor waits for the node to be back.
func mayReplacePods(n *Node, slot *Slot) bool {
	return n != nil && n.Ready && !slot.Queued && !slot.isOperating(n) && !n.mayBeBack && !n.Operation.isAtWork()
}

// mayChoosePod reports whether a slot may name a pod of its node, nil for none. It may not while it names another pod that may
// still be deleted, or if the cache has an older version of the pod than the slot names.
func mayChoosePod(f *fence, slot *Slot, n *Node, pod *Pod) bool {
	if pod == nil {
		return false
	}
	if slot.Pod != pod.UID {
		return f.isRuledOut(slot, n)
	}
	return !isOlder(pod.Version, slot.PodVersion)
}

// membersWith returns the members of those pods of a node for which is returns true.
func membersWith(pods []Pod, is func(*Pod) bool) (members []int) {
	for i := range pods {
		if is(&pods[i]) {
			members = append(members, pods[i].Member)
		}
	}
	return members
}
