package rollout

import (
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// A manager may be interrupted for any time between the write of the ledger and a deletion, while
// another one leads, or it may read stale nodes. So a slot that names a pod is given back, for whatever
// reason, or names another pod, only when that deletion can no longer happen. The slot permits the deletion of
// one resourceVersion only, so that is the case when the observed pod has a newer one. As long as
// the version has not changed, the pod is written to (fenced). A version that was lost
// when a backup of etcd was restored never comes; package access corrects such a slot.

// fence lists the pods to write to.
type fence []Pod

// isRuledOut reports whether the deletion that a slot names can no longer happen, or has begun. It adds the
// pod to the fence if it is still at the version that the slot names.
func (f *fence) isRuledOut(slot *Slot, n *Node) bool {
	if slot.PodVersion == "" || len(slot.Members) == 0 {
		return true // it never named a pod
	}
	pod := namedPod(slot, n)
	if pod == nil || daemonset.Newer(pod.Version, slot.PodVersion) {
		return true
	}
	if pod.UID != slot.Pod || pod.Version != slot.PodVersion {
		return false
	}
	if !pod.Terminating && !n.fencing {
		*f = append(*f, *pod)
		n.fencing = true
	}
	return pod.Terminating
}

// isOperating reports whether the operation of a slot of a node, if it has one, has not ended.
func (s *Slot) isOperating(n *Node) bool {
	return s.Operation != "" && endOf(s.Operation, n.Ended) == nil
}

// namedPod returns the observed pod of the member whose pod a slot names: that pod, an older or a
// newer one; nil if there is none.
func namedPod(slot *Slot, n *Node) *Pod {
	if len(slot.Members) == 0 {
		return nil
	}
	member := slot.Members[len(slot.Members)-1]
	i := slices.IndexFunc(n.Pods, func(pod Pod) bool { return pod.UID != "" && n.group.keyOf(&pod) == member })
	if i < 0 {
		return nil
	}
	return &n.Pods[i]
}

// replacedUnder returns the members of a slot without the one whose pod it names and that is still there.
func replacedUnder(slot *Slot, n *Node) []string {
	if pod := namedPod(slot, n); pod != nil && pod.UID == slot.Pod && !pod.Terminating {
		return slot.Members[:len(slot.Members)-1]
	}
	return slot.Members
}

// setPod records in a slot that this version of a pod may be deleted.
func setPod(slot *Slot, n *Node, pod *Pod, now time.Time) {
	member := n.group.keyOf(pod)
	if slot.Pod != pod.UID {
		slot.Progress = now
	}
	slot.Pod, slot.PodVersion = pod.UID, pod.Version
	for i := range n.Pods { // pods that start once it is gone
		if key := n.group.keyOf(&n.Pods[i]); n.Pods[i].RivalRuns && !slices.Contains(slot.Members, key) {
			slot.Members = append(slices.Clip(slot.Members), key)
		}
	}
	if i := slices.Index(slot.Members, member); i < 0 || i != len(slot.Members)-1 {
		slot.Members = append(slices.DeleteFunc(slices.Clone(slot.Members), func(m string) bool { return m == member }), member)
	}
}

// isOlder reports whether the observed version of a pod is older than the one a slot names.
func isOlder(seen, named string) bool { return seen != named && !daemonset.Newer(seen, named) }

// Reversed is a slot that names a newer version of a pod than the observed one, or the same version of another pod. Either
// the cache is stale, or a backup of etcd was restored, which removed the named version; another pod may have got it since.
type Reversed struct {
	*Slot
	Seen *Pod
}

// Reversed returns the reversed slots among the given ones that were started before a time, or by a clock that was ahead. For others
// it is likelier that the cache is stale.
func (f *Fleet) Reversed(slots []Slot, before time.Time) (reversed []Reversed) {
	for i := range slots {
		slot := &slots[i]
		n := f.nodes.lookup(slot.Node, slot.UID)
		if n == nil || !slot.Since.Before(before) && !daemonset.IsAhead(slot.Since, before) {
			continue
		}
		if pod := namedPod(slot, n); pod != nil && (isOlder(pod.Version, slot.PodVersion) || pod.UID != slot.Pod && pod.Version == slot.PodVersion) {
			reversed = append(reversed, Reversed{slot, pod})
		}
	}
	return reversed
}
