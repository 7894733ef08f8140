package deletion

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Replaced are the members that were replaced on nodes, by group: see rollout.Node.Replaced. What was replaced before this process
// began is derived from the pods, because another one may have crashed, or lost its Lease, in the middle of a rollout.
type Replaced map[observed.Group]*replacedOn

// replacedOn has the members that were replaced on the nodes of a group: recent since a time, older in the period before.
type replacedOn struct {
	recent, older map[types.UID]map[string]time.Time
	since         time.Time
	// begun is when the process began with the group.
	begun time.Time
	// remembered is how long slots are remembered at least, recentPeriod how long before begun pods count as replaced.
	remembered, recentPeriod time.Duration
}

// Begin starts the memory of a group at its first call, and again if the clock was set back. Ended slots are remembered for at least the given
// time, and at most twice as long. A pod that was created at most recentPeriod before the process began may have been replaced.
func (r *Replaced) Begin(g observed.Group, now time.Time, remembered, recentPeriod time.Duration) {
	if *r == nil {
		*r = Replaced{}
	}
	if on := (*r)[g]; on == nil || now.Before(on.since) {
		(*r)[g] = &replacedOn{recent: map[types.UID]map[string]time.Time{}, since: now, begun: now}
	}
	(*r)[g].remembered, (*r)[g].recentPeriod = remembered, recentPeriod
}

// Note records slots of a group that are over now.
func (r *Replaced) Note(g observed.Group, over []rollout.Slot, now time.Time) {
	on := (*r)[g]
	if len(over) > 0 && now.Sub(on.since) > on.remembered {
		on.recent, on.older, on.since = map[types.UID]map[string]time.Time{}, on.recent, now
	}
	for _, slot := range over {
		members := maps.Clone(on.of(slot.UID))
		if members == nil {
			members = map[string]time.Time{}
		}
		for _, member := range slot.Members {
			members[member] = now
		}
		on.recent[slot.UID] = members
	}
}

// Of returns the members of a group that were replaced on a node, and when; nil if none is known. For a pod that another process may have
// replaced, the time is a moment after this one began: what such a pod was then proves nothing.
func (r *Replaced) Of(s *observed.State, node *corev1.Node, n *rollout.Node) map[string]time.Time {
	on := (*r)[s.Group]
	members := on.of(n.UID)
	for i := range n.Pods {
		pod := &n.Pods[i]
		ds := s.Members[pod.Member].DaemonSet
		member := s.Members[pod.Member].Key()
		if _, known := members[member]; known || !on.mayHaveReplaced(pod.Created, lastWork(&s.Rollout.Status), ds.CreationTimestamp, node.CreationTimestamp) {
			continue
		}
		if members = maps.Clone(members); members == nil {
			members = map[string]time.Time{}
		}
		members[member] = on.begun.Add(moment)
	}
	return members
}

// moment exceeds the precision of the times that the API server stores.
const moment = 2 * time.Second

func (on *replacedOn) of(node types.UID) map[string]time.Time {
	if members, ok := on.recent[node]; ok {
		return members
	}
	return on.older[node]
}

// mayHaveReplaced reports whether a pod may have been created under a slot that is not known: not long before the process began, and not
// long after nodes were last started or finished. Its owners, the DaemonSet and the Node, must be older by more than that: a new one has its first pod.
func (on *replacedOn) mayHaveReplaced(created time.Time, lastWork *metav1.Time, owners ...metav1.Time) bool {
	isNew := slices.ContainsFunc(owners, func(t metav1.Time) bool { return created.Before(t.Add(on.recentPeriod)) })
	return lastWork != nil && !isNew && !created.After(on.begun) && !created.Before(on.begun.Add(-on.recentPeriod)) && !created.After(lastWork.Add(on.recentPeriod))
}

// lastWork returns when a node of a rollout was last started, or later finished; nil if none was started.
func lastWork(status *topsv1.DaemonRolloutStatus) *metav1.Time {
	if status.LastStartTime != nil && status.LastStartTime.Before(status.LastProgressTime) {
		return status.LastProgressTime
	}
	return status.LastStartTime
}
