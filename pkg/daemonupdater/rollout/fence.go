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

// name records the pod of a member as the one that may be deleted, as it is seen.
func (s *Slot) name(pod *Pod, member string) {
	s.Pod, s.PodVersion = pod.UID, pod.Version
	if i := slices.Index(s.Members, member); i < 0 || i != len(s.Members)-1 {
		s.Members = append(slices.DeleteFunc(slices.Clone(s.Members), func(m string) bool { return m == member }), member)
	}
}

// spent reports whether the pod that a slot names cannot be deleted for it any
// more. It asks for a fence when the pod is as the slot names it.
func (p *planner) spent(slot Slot, node *nodeFacts) bool {
	if slot.PodVersion == "" || len(slot.Members) == 0 {
		return true // it never named one
	}
	pod := p.named(&slot, node)
	if pod == nil || daemonset.Newer(pod.Version, slot.PodVersion) {
		return true
	}
	if pod.UID == slot.Pod && pod.Version == slot.PodVersion && !pod.Terminating {
		p.fence = append(p.fence, *pod)
	}
	return false
}

// named returns what is seen of the member whose pod a slot names: that pod, or one
// that was there before or after it; nil when there is none.
func (p *planner) named(slot *Slot, node *nodeFacts) *Pod {
	if len(slot.Members) == 0 {
		return nil
	}
	member := slot.Members[len(slot.Members)-1]
	i := slices.IndexFunc(node.Pods, func(pod Pod) bool { return pod.UID != "" && p.in.Members[pod.Member].Key == member })
	if i < 0 {
		return nil
	}
	return &node.Pods[i]
}

// older reports whether what is seen of a pod is from before what a slot names.
func older(seen, named string) bool { return seen != named && !daemonset.Newer(seen, named) }
