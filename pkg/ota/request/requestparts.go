package request

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// drop ends a part before anything was done.
func (p *Part) drop(reason Reason, message string) {
	p.State, p.Reason, p.Message = Dropped, string(reason), message
}

// RequestParts makes the requests of an operation that was not sent to the operator, for
// each part that is unchanged since it was accepted. Requests that status, that of the
// NodeUpgrade, already shows are kept. It returns the operation as it is once the requests
// are submitted, and all requests. The input is not changed.
func (o Operation) RequestParts(node *Node, requests []Request, status *topsv1.NodeUpgradeStatus, now metav1.Time) (Operation, []Request) {
	requests = slices.Clone(requests)
	submitted := func(p Part) string {
		i := slices.IndexFunc(requests, func(r Request) bool {
			return r.Operation == o.ID && r.DaemonSet.UID == p.DaemonSet.UID && isSubmitted(status, r.ID)
		})
		if i < 0 {
			return ""
		}
		return requests[i].ID
	}
	o = o.chosen(node, func(p Part) bool { return submitted(p) != "" })
	for i := range o.Parts {
		p := &o.Parts[i]
		if p.OtherRequest { // it has the request of others
			continue
		}
		if id := submitted(*p); id != "" {
			p.Request, p.State = id, Waiting
			continue
		}
		if p.State.Final() {
			continue
		}
		wanted := p.decideAgain(o.Wanted, node)
		if p.State == Dropped {
			continue
		}
		wanted.Operation = o.ID
		r, found, refusal := Admit(requests, status.Tasks, wanted, now)
		if refusal != nil {
			p.drop(refusal.Reason, refusal.Message)
			continue
		}
		if !found {
			requests = append(requests, r)
		}
		p.Request, p.State = r.ID, Waiting
	}
	requests = slices.DeleteFunc(requests, func(r Request) bool {
		return r.Operation == o.ID && !slices.ContainsFunc(o.Parts, func(p Part) bool { return p.Request == r.ID })
	})
	o.Queued = false
	return o.Follow(status.Tasks, now), requests
}

// chosen returns the operation with the parts to request: those it was accepted with, or
// for the latest the current ones. Once a part has been requested, the parts stay.
func (o Operation) chosen(node *Node, requested func(Part) bool) Operation {
	o.Parts = slices.Clone(o.Parts)
	if !o.Wanted.Latest || slices.ContainsFunc(o.Parts, requested) {
		return o
	}
	parts, refusal := node.choose(o.Wanted, nil)
	if refusal != nil {
		parts = []Part{{Component: o.Wanted.Component}}
		parts[0].drop(refusal.Reason, refusal.Message)
	}
	beside := slices.DeleteFunc(o.Parts, func(p Part) bool { return !p.OtherRequest })
	o.Parts = slices.Concat(parts, beside)
	return o
}

// decideAgain repeats the decision on a part, and drops it if it has changed.
func (p *Part) decideAgain(want Wanted, node *Node) topsv1.UpgradeRequest {
	all := node.Placed()
	i := slices.IndexFunc(all, func(on Placed) bool { return on.DaemonSet.Ref.UID == p.DaemonSet.UID && on.Pod.Name == p.Pod.Name })
	if i < 0 || all[i].Pod.UID != p.Pod.UID {
		p.drop(ReasonPodReplaced, fmt.Sprintf("pod %s was replaced, or its DaemonSet is gone, before the operator received it", p.Pod.Name))
		return topsv1.UpgradeRequest{}
	}
	wanted, refusal := want.decide(all[i], node.Name)
	switch {
	case refusal != nil:
		p.drop(refusal.Reason, refusal.Message)
	case wanted.Revision != p.Revision:
		p.drop(ReasonRevisionChanged, fmt.Sprintf("revision %s was requested, but %s is the newest by now: repeat the request, or request the latest", p.Revision, wanted.Revision))
	}
	return wanted
}

func isSubmitted(status *topsv1.NodeUpgradeStatus, id string) bool {
	return slices.ContainsFunc(status.Requests, func(r topsv1.UpgradeRequest) bool { return r.ID == id })
}

// Decided returns the requests that may be submitted without another decision. The recorded
// requests of a queued operation must be decided again before they are submitted for the first
// time.
func Decided(requests []Request, operations []Operation, status *topsv1.NodeUpgradeStatus) []Request {
	queued := ""
	if i := Unfinished(operations); i >= 0 && operations[i].Queued {
		queued = operations[i].ID
	}
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool {
		return queued != "" && r.Operation == queued && !isSubmitted(status, r.ID)
	})
}
