package dashboard

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// verbs are those that the user may use.
type verbs map[Verb]bool

// Has reports whether a verb is among them.
func (v verbs) Has(verb string) bool { return v[Verb(verb)] }

// pageData is what the page shows.
type pageData struct {
	Words     words
	Resources []section
	// By is how the reader wants nodes to be grouped; empty for the default.
	By string
	// At is when the cluster was read last without an error.
	At string
	// Error is why the cluster could not be read since; empty if it could.
	Error string
}

// section is a gr on the page.
type section struct {
	Resource
	// Parts of the bar, in the order of letters.
	Parts []part
	// Groups of nodes. By is how they are grouped, one of Choices.
	Groups  []group
	By      string
	Choices []string
	ETA     string
	// May has the verbs whose buttons are shown.
	May verbs
}

// part is the share of the nodes in a state.
type part struct {
	State, Letter string
	Nodes         int32
	Percent       float64
}

// sectionOf returns what the page shows of a gr; may are the verbs that the user may use, by is how
// nodes are grouped if that is one of the gr's choices.
func sectionOf(r Resource, may verbs, by string) section {
	if r.Status.Outcome.Reason == status.ReasonDeleting { // changes are refused
		may = verbs{}
	}
	s := section{Resource: r, May: maps.Clone(may)}
	if ro := r.Status.Rollout; ro != nil {
		counts := map[string]int32{string(rollout.Updated): ro.Nodes.Updated, string(rollout.InFlight): ro.Nodes.InFlight, string(rollout.Pending): ro.Nodes.Pending,
			string(rollout.Held): ro.Nodes.Held, string(rollout.Skipped): ro.Nodes.Skipped, string(rollout.Failed): ro.Nodes.Failed, string(rollout.Pinned): ro.Nodes.Pinned}
		for _, l := range letters {
			if n := counts[l.state]; n > 0 && ro.Nodes.Total > 0 {
				s.Parts = append(s.Parts, part{State: l.state, Letter: l.letter, Nodes: n, Percent: 100 * float64(n) / float64(ro.Nodes.Total)})
			}
		}
		if ro.ETASeconds > 0 {
			s.ETA = duration.HumanDuration(time.Duration(ro.ETASeconds) * time.Second)
		}
		s.May[Pause] = may[Pause] && !ro.Paused
		// What its policy rolled back stays rejected, also when that is done, until it is resumed.
		s.May[Resume] = may[Resume] && (ro.Paused || ro.Halted || ro.Nodes.Failed > 0 || ro.Rollback != nil)
	} else {
		s.May[Pause], s.May[Resume] = false, false
	}
	if s.Choices, s.By = choicesOf(r), by; !slices.Contains(s.Choices, by) {
		s.By = s.Choices[0]
	}
	s.Groups = groupsOf(r, s.By)
	return s
}

// nodeData is what is shown of one node.
type nodeData struct {
	Words  words
	GR     string
	Node   display.Node
	Detail Detail
	May    verbs
	// Failed is the failed task that may be retried; empty for none.
	Failed string
	// Requests are those of the node, with the answers to them.
	Requests []request
	// Held reports whether an administrator excludes the node from upgrades, whatever its state is.
	Held bool
}

// nodeOf returns what is shown of a node of a gr; false if the gr has none of that name.
func nodeOf(r Resource, name string, d Detail, may verbs) (nodeData, bool) {
	i := slices.IndexFunc(r.Nodes, func(n display.Node) bool { return n.Name == name })
	if i < 0 {
		return nodeData{}, false
	}
	data := nodeData{GR: r.Status.Name, Node: r.Nodes[i], Detail: d, May: may, Held: daemonset.OfAdministrator(d.Upgrade) != nil}
	if op := r.Nodes[i].Operation; op != nil && op.KeptCordoned && op.Reason != operation.ReasonSucceeded {
		data.Failed = op.Task
	}
	data.Requests = requestsOf(d.Upgrade)
	data.Detail.Events = slices.Clone(d.Events)
	slices.SortStableFunc(data.Detail.Events, func(a, b Event) int { return cmp.Compare(b.Time, a.Time) })
	return data, true
}

// request is what was asked for on a node.
type request struct {
	topsv1.UpgradeRequest
	// Answer is what became of it so far, empty if it has not been read yet.
	Answer topsv1.UpgradeTask
}

// requestsOf returns the requests of a node with their answers, the newest last. Nil has none.
func requestsOf(upgrade *topsv1.NodeUpgrade) (list []request) {
	if upgrade == nil {
		return nil
	}
	answers := map[string]topsv1.UpgradeTask{}
	for _, t := range upgrade.Status.Tasks {
		answers[t.RequestID] = t
	}
	for _, r := range upgrade.Status.Requests {
		list = append(list, request{r, answers[r.ID]})
	}
	return list
}
