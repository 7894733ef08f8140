package rollout

import "k8s.io/apimachinery/pkg/types"

// Deletion is one pod to delete.
type Deletion struct {
	Node   string
	Member int
	Pod    string
	// UID and Version are the preconditions of the deletion.
	UID     types.UID
	Version string
	// Absent are the members without a pod on the node when the decision was made. If other members are
	// absent at the time of the deletion, the node may be available by then.
	Absent []int
	// WasUnavailable is true if the pod was already unavailable.
	WasUnavailable bool
	// Unready are the members without a Ready pod on the node, if only that lets it be replaced before its turn. A cache that
	// lags may show it: one of them must still have none at the time of the deletion.
	Unready []int
}

// nextDeletions records in each slot which pod to delete next, if any, and returns these deletions. A
// node that may be available waits for its turn.
func nextDeletions(d *draft, limit int) (deletions []Deletion) {
	turns := d.ledger.turns()
	for i := range d.ledger.Slots {
		slot := &d.ledger.Slots[i]
		n := d.fleet.nodes.lookup(slot.Node, slot.UID)
		if !mayReplacePods(n, slot) {
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
		deletion := Deletion{
			Node: n.Name, Member: pod.Member, Pod: pod.Name, UID: pod.UID, Version: slot.PodVersion, Absent: absentMembers(n.Pods), WasUnavailable: !pod.Available,
		}
		if early {
			deletion.Unready = unreadyMembers(n.Pods)
		}
		deletions = append(deletions, deletion)
	}
	return deletions
}

// unreadyMembers returns the members without a Ready pod, of the pods of a node.
func unreadyMembers(pods []Pod) (members []int) {
	for i := range pods {
		if pods[i].isUnready() {
			members = append(members, pods[i].Member)
		}
	}
	return members
}

// mayReplacePods reports whether pods of a node, nil if it is gone, may be deleted under its slot: no operation is at work
// there.
func mayReplacePods(n *fleetNode, slot *Slot) bool {
	return n != nil && n.Ready && !slot.Queued && (slot.Operation == "" || endOf(slot.Operation, n.Ended) != nil) && !n.Operation.isAtWork()
}

// mayChoosePod reports whether a slot may name a pod of its node, nil for none. It may not while it names another pod that may
// still be deleted, or if the cache has an older version of the pod than the slot names.
func mayChoosePod(f *fence, slot *Slot, n *fleetNode, pod *Pod) bool {
	if pod == nil {
		return false
	}
	if slot.Pod != pod.UID {
		return f.isRuledOut(slot, n)
	}
	return !isOlder(pod.Version, slot.PodVersion)
}

// absentMembers returns the members of those pods of a node that do not exist.
func absentMembers(pods []Pod) (members []int) {
	for i := range pods {
		if pods[i].UID == "" {
			members = append(members, pods[i].Member)
		}
	}
	return members
}
