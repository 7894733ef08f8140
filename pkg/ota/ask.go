package ota

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Reasons of parts that are dropped, besides those of a Refusal.
const (
	reasonRevisionChanged = "RevisionChanged"
	reasonPodReplaced     = "PodReplaced"
	reasonWithdrawn       = "Withdrawn"
)

// drop gives a part up.
func (p *part) drop(reason, message string) { p.State, p.Reason, p.Message = Dropped, reason, message }

// ask makes the requests of an operation that the operator was not told of: for each
// part that still is as it was when it was accepted. shown is the status of the
// NodeUpgrade: what it shows already was asked for, and stays. It returns the operation
// as it is once the requests are shown, and all entries. The input is not changed.
func ask(r record, s *snapshot, entries []entry, shown *topsv1.NodeUpgradeStatus, nodeName string, now metav1.Time) (record, []entry) {
	entries = slices.Clone(entries)
	asked := func(p part) *entry {
		i := slices.IndexFunc(entries, func(e entry) bool {
			return e.Request.Operation == r.ID && e.Request.DaemonSet.UID == p.DaemonSet.UID && isShown(shown, e.Request.ID)
		})
		if i < 0 {
			return nil
		}
		return &entries[i]
	}
	r = r.chosen(s, nodeName, func(p part) bool { return asked(p) != nil })
	for i := range r.Parts {
		p := &r.Parts[i]
		if e := asked(*p); e != nil {
			p.Request, p.State = e.Request.ID, Waiting
			continue
		}
		if p.State.Final() {
			continue
		}
		v := again(s, p, nodeName)
		if p.State == Dropped {
			continue
		}
		e, found, refusal := admit(entries, shown.Tasks, v, now)
		if refusal != nil {
			p.drop(string(refusal.Reason), refusal.Message)
			continue
		}
		if !found {
			e.Request.Operation = r.ID
			entries = append(entries, e)
		}
		p.Request, p.State = e.Request.ID, Waiting
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool {
		return e.Request.Operation == r.ID && !slices.ContainsFunc(r.Parts, func(p part) bool { return p.Request == e.Request.ID })
	})
	r.Queued = false
	return r.follow(shown.Tasks, now), entries
}

// chosen returns the operation with the parts that are to be asked for: those it was
// accepted with, or for the latest those there are now. Once one was asked for, they
// stay.
func (r record) chosen(s *snapshot, nodeName string, asked func(part) bool) record {
	r.Parts = slices.Clone(r.Parts)
	if !r.Wish.Latest || slices.ContainsFunc(r.Parts, asked) {
		return r
	}
	parts, refusal := choose(s, r.Wish, nodeName)
	if refusal != nil {
		parts = []part{{Component: r.Wish.Component}}
		parts[0].drop(string(refusal.Reason), refusal.Message)
	}
	r.Parts = parts
	return r
}

// again decides about a part once more, and drops it when it is not as it was.
func again(s *snapshot, p *part, nodeName string) verdict {
	all := placedIn(s)
	i := slices.IndexFunc(all, func(on placed) bool { return on.owner.Ref.UID == p.DaemonSet.UID && on.pod.Name == p.Pod.Name })
	if i < 0 || all[i].pod.UID != p.Pod.UID {
		p.drop(reasonPodReplaced, fmt.Sprintf("pod %s was replaced, or its DaemonSet is gone, before the operator received it", p.Pod.Name))
		return verdict{}
	}
	v := decide(all[i].pod, nodeName)
	switch {
	case v.Refusal != nil:
		p.drop(string(v.Refusal.Reason), v.Refusal.Message)
	case all[i].owner.Strategy != daemonset.OTA:
		p.drop(string(ReasonNotOTA), "its DaemonSet has not the update strategy OTA any more")
	case v.Revision != p.Revision:
		p.drop(reasonRevisionChanged, fmt.Sprintf("revision %s was asked for, and %s is the newest by now: ask again, or for the latest", p.Revision, v.Revision))
	}
	return v
}

func isShown(status *topsv1.NodeUpgradeStatus, id string) bool {
	return slices.ContainsFunc(status.Requests, func(r topsv1.UpgradeRequest) bool { return r.ID == id })
}

// showable returns those entries that may be shown as they are: not those that were
// recorded for an operation that the operator was not told of, which are looked at
// once more first.
func (in *Inbox) showable(nodeUpgrade *topsv1.NodeUpgrade, entries []entry) []entry {
	queued := ""
	if i := running(in.book.records); i >= 0 && in.book.records[i].Queued {
		queued = in.book.records[i].ID
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		return queued != "" && e.Request.Operation == queued && !isShown(&nodeUpgrade.Status, e.Request.ID)
	})
}
