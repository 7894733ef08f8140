package rollout

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// A manager may be interrupted between the ledger and a deletion for any time,
// while another one leads, or see nodes as they were a while ago. So a slot that
// names a pod is given back, or names another, only when that deletion cannot
// happen any more: what is seen of the pod is newer than what the slot names,
// which is all that may be deleted. Where that is not so by itself, the pod is
// written to.

// fence lists the pods to be written to.
type fence []Pod

// isRuledOut reports whether the deletion that a slot names cannot happen any more. It asks
// for a fence when the pod is as the slot names it.
func (f *fence) isRuledOut(slot *Slot, n *fleetNode) bool {
	if slot.PodVersion == "" || len(slot.Members) == 0 {
		return true // it never named one
	}
	pod := namedPod(slot, n)
	if pod == nil || daemonset.Newer(pod.Version, slot.PodVersion) {
		return true
	}
	if pod.UID == slot.Pod && pod.Version == slot.PodVersion && !pod.Terminating {
		*f = append(*f, *pod)
	}
	return false
}

// namedPod returns what is seen of the member whose pod a slot names: that pod, or one
// that was there before or after it; nil when there is none.
func namedPod(slot *Slot, n *fleetNode) *Pod {
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

// setPod records in a slot that a pod of a node may be deleted, as it is seen.
func setPod(slot *Slot, n *fleetNode, pod *Pod) {
	member := n.group.keyOf(pod)
	slot.Pod, slot.PodVersion = pod.UID, pod.Version
	if i := slices.Index(slot.Members, member); i < 0 || i != len(slot.Members)-1 {
		slot.Members = append(slices.DeleteFunc(slices.Clone(slot.Members), func(m string) bool { return m == member }), member)
	}
}

// isOlder reports whether what is seen of a pod is from before what a slot names.
func isOlder(seen, named string) bool { return seen != named && !daemonset.Newer(seen, named) }
