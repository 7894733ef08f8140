package audit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// Moment is something that was decided, or happened to the rollout as a whole.
type Moment struct {
	Time time.Time `json:"time"`
	// What happened, as an event of the record or a verb of a user on a node.
	What string `json:"what"`
	// Subject is a wave, a node or several.
	Subject string `json:"subject,omitempty"`
	Nodes   int32  `json:"nodes,omitempty"`
	// By is the user who asked for it, "" if no user did or it is not known.
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
}

// timelineOf returns the entries of the record, with the current holds and latest changes of nodes.
func timelineOf(f *display.Fleet, u *Upgrade) []Moment {
	list := []Moment{}
	for _, e := range u.Entries {
		m := Moment{Time: e.Time.UTC(), What: string(e.Event), Subject: e.Subject, Nodes: e.Nodes, By: e.By, Message: e.Message}
		if e.Limit != "" {
			m.Message = strings.TrimPrefix(m.Message+"; limited to "+e.Limit, "; ")
		}
		list = append(list, m)
	}
	for i := range f.NodeUpgrades {
		list = append(list, userChangesOf(&f.NodeUpgrades[i], u)...)
	}
	slices.SortStableFunc(list, func(a, b Moment) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Subject, b.Subject)) })
	return list
}

// userChangesOf returns the hold that was set on a node during the upgrade, and the latest retry, skip, undo or release there.
func userChangesOf(n *topsv1.NodeUpgrade, u *Upgrade) []Moment {
	var list []Moment
	for _, h := range daemonset.HoldsOf(n) {
		if u.includes(h.Since) {
			list = append(list, Moment{Time: h.Since.UTC(), What: askedby.Hold, Subject: n.Name, By: cmp.Or(h.User, string(h.By)), Message: h.Message})
		}
	}
	change := askedby.Of(n.Annotations)
	if u.includes(change.Time) && slices.Contains([]string{askedby.Retry, askedby.Skip, askedby.Undo, askedby.Release}, change.Verb) {
		m := Moment{Time: change.Time.UTC(), What: change.Verb, Subject: n.Name, By: change.User}
		if value := n.Annotations[topsv1.AnnotationTaskOverride]; strings.HasPrefix(value, change.Verb+":") {
			m.Message = value
		}
		list = append(list, m)
	}
	return list
}
