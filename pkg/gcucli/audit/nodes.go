package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// workOf returns the work of an upgrade on all nodes, sorted by start, and what its pods and operations do not show.
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
	missing = unrecorded(replaced, later)
	if resumed := endsUnknown(list); resumed != "" {
		missing = append(missing, resumed)
	}
	return list, missing
}

// operationsOn returns the stored operations of a node, and the current one. One that was resumed has its entry in the history,
// about its attempt before, until it ends again.
func operationsOn(n *topsv1.NodeUpgrade, u *Upgrade) []Work {
	var list []Work
	add := func(revision string, w Work) {
		is, goesBack := u.covers(revision, w.Began)
		if is {
			w.Node, w.GoesBack = n.Name, goesBack
			list = append(list, w)
		}
	}
	o, ended := n.Status.Operation, false
	for i := range n.Status.History {
		h := &n.Status.History[i]
		if o != nil && h.ID == o.ID {
			ended = o.EndTime != nil
			if first := firstStart(o); !first.IsZero() && first.Before(h.StartTime.Time) {
				add(h.Revision, Work{What: h.ID, Began: first.UTC(), Result: unknownResult, endUnknown: true, resumed: true})
			}
		}
		add(h.Revision, Work{What: h.ID, Began: h.StartTime.UTC(), Ended: utc(&h.EndTime), Result: string(h.Phase), Reason: h.Reason, Message: h.Message, Tasks: &h.Result})
	}
	if o != nil && !ended {
		add(o.Revision, Work{What: o.ID, Began: o.StartTime.UTC(), Ended: utc(o.EndTime), Result: string(o.Phase), Reason: o.Reason, Message: o.Message})
	}
	return list
}

// firstStart returns when the first task of an operation that needs a grant began, zero if none has. When an operation is resumed,
// its own start is set again, and that of the tasks that were done stays.
func firstStart(o *topsv1.OperationStatus) (first time.Time) {
	for i := range o.Tasks {
		t, err := upgradeplan.ParseTask(o.Tasks[i].Name)
		start := o.Tasks[i].StartTime
		if err != nil || start == nil || t.Action == upgradeplan.ActionPrecheck || t.Action == upgradeplan.ActionPrepull {
			continue
		}
		if first.IsZero() || start.Time.Before(first) {
			first = start.Time
		}
	}
	return first
}

// endsUnknown names the nodes with an operation whose end before it was resumed is not known, "" if there are none.
func endsUnknown(list []Work) string {
	var nodes []string
	for i := range list {
		if list[i].resumed {
			nodes = append(nodes, list[i].Node)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return fmt.Sprintf("how and when %s ended before a retry or skip: %s", message.Count(len(nodes), "operation"), message.Names(nodes))
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
