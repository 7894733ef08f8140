package daemonupdater

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simapi"
)

// operatedNodes returns the nodes that operations have marked, or are at work on: one that a person
// had cordoned has no mark.
func (w *simWorld) operatedNodes() (names []string) {
	for _, node := range simapi.All[*corev1.Node](w.api, simNodes) {
		u := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: node.Name})
		if len(simMarks(node)) > 0 || simAtWork(u) != "" {
			names = append(names, node.Name)
		}
	}
	return names
}

// rewindOperations has the checks forget what a restored backup took back: how far operations were,
// and the cordons of people. operated are the nodes that operations had out of service: on one that
// is not cordoned any more, or whose pods are back, the manager or the host at work may go on before
// it sees that.
func (w *simWorld) rewindOperations(operated []string) {
	if w.ops == nil {
		return
	}
	clear(w.ops.before)
	clear(w.ops.stray)
	ended, kept := map[string]bool{}, map[string]bool{}
	for _, u := range simapi.All[*topsv1.NodeUpgrade](w.api, simUpgrades) {
		w.ops.before[u.Name] = u
		if u.Status.Operation != nil {
			kept[u.Status.Operation.ID] = true
		}
		for _, r := range u.Status.History {
			ended[r.ID] = true
		}
	}
	for id, op := range w.ops.known {
		op.ended, op.lost = ended[id], !ended[id] && !kept[id]
	}
	for _, h := range w.hosts {
		node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
		h.machine.foreign = node != nil && node.Spec.Unschedulable && node.ManagedFields[0].Manager != topsv1.ManagedBy
		h.machine.excused = h.machine.excused || slices.Contains(operated, h.name)
	}
}
