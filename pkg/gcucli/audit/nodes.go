package audit

import (
	"cmp"
	"slices"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// workOf returns the work of an upgrade on all nodes, sorted by start, and what its pods do not show.
func workOf(f *display.Fleet, u *Upgrade) (list []Work, missing []string) {
	type part struct {
		node     string
		goesBack bool
	}
	worked, own := map[part]bool{}, map[topsv1.NamespacedRef]bool{}
	list = []Work{}
	for i := range f.DaemonSets {
		own[topsv1.NamespacedRef{Namespace: f.DaemonSets[i].Namespace, Name: f.DaemonSets[i].Name}] = true
	}
	for i := range f.NodeUpgrades {
		n := &f.NodeUpgrades[i]
		list = append(list, slices.Concat(operationsOn(n, u), requestsOn(n, u, own))...)
	}
	for i := range list {
		worked[part{list[i].Node, list[i].GoesBack}] = true
	}
	replaced, later := replacements(f, u)
	replaced = slices.DeleteFunc(replaced, func(w Work) bool { return worked[part{w.Node, w.GoesBack}] })
	list = append(list, replaced...)
	slices.SortStableFunc(list, func(a, b Work) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Node, b.Node), cmp.Compare(a.What, b.What))
	})
	return list, unrecorded(replaced, later)
}

// operationsOn returns the stored operations of a node, and the current one.
func operationsOn(n *topsv1.NodeUpgrade, u *Upgrade) []Work {
	var list []Work
	kept := map[string]bool{}
	for i := range n.Status.History {
		h := &n.Status.History[i]
		is, goesBack := u.covers(h.Revision, h.StartTime.Time)
		if !is {
			continue
		}
		kept[h.ID] = true
		list = append(list, Work{Node: n.Name, What: h.ID, Began: h.StartTime.UTC(), Ended: utc(&h.EndTime), GoesBack: goesBack, Result: string(h.Phase), Reason: h.Reason,
			Message: h.Message, Tasks: &h.Result})
	}
	o := n.Status.Operation
	if o == nil || kept[o.ID] {
		return list
	}
	if is, goesBack := u.covers(o.Revision, o.StartTime.Time); is {
		list = append(list, Work{Node: n.Name, What: o.ID, Began: o.StartTime.UTC(), Ended: utc(o.EndTime), GoesBack: goesBack, Result: string(o.Phase), Reason: o.Reason, Message: o.Message})
	}
	return list
}

// requestsOn returns what was asked for on the node, of the gr's own DaemonSets, and started. A task
// whose request the agent keeps no longer is left out: it may be about any DaemonSet.
func requestsOn(n *topsv1.NodeUpgrade, u *Upgrade, own map[topsv1.NamespacedRef]bool) []Work {
	var list []Work
	for i := range n.Status.Tasks {
		t := &n.Status.Tasks[i]
		if t.StartTime == nil || !u.includes(t.StartTime.Time) {
			continue
		}
		_, goesBack := u.covers(u.back, t.StartTime.Time)
		for j := range n.Status.Requests {
			q := &n.Status.Requests[j]
			if q.ID == t.RequestID && own[topsv1.NamespacedRef{Namespace: q.DaemonSet.Namespace, Name: q.DaemonSet.Name}] {
				list = append(list, Work{Node: n.Name, What: t.Name, RequestTime: utc(&q.RequestTime), Began: t.StartTime.UTC(), Ended: utc(t.EndTime), GoesBack: goesBack, Result: string(t.State), Reason: t.Reason, Message: t.Message})
			}
		}
	}
	return list
}
