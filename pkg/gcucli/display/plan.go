package display

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// PlanText renders a preview as text.
func PlanText(p *preview.Preview, changes []Change, s Style) string {
	parts := []string{planHead(p, changes), componentsText(p, s), batchesText(p), evictionsText(p, s), leftText(p, s)}
	if s.Wide {
		parts = append(parts, nodesText(p, s))
	}
	return strings.Join(slices.DeleteFunc(parts, func(t string) bool { return t == "" }), "\n")
}

// planHead is the summary.
func planHead(p *preview.Preview, changes []Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "GcuResource %s: %s\n", p.GcuResource, plaintext.Line(planSum(p)))
	if p.Only != "" {
		fmt.Fprintf(&b, "  limited to %s\n", LimitText(p.Only))
	}
	if len(p.InFlight) > 0 {
		fmt.Fprintf(&b, "  in flight already: %s (%s)\n", message.Count(len(p.InFlight), "node"), message.Names(p.InFlight))
	}
	b.WriteString(ChangesText(changes, "  "))
	return b.String()
}

func planSum(p *preview.Preview) string {
	atOnce := slices.ContainsFunc(p.Components, func(c preview.Component) bool { return c.Change.AtOnce() })
	switch {
	case p.Blocked != "":
		return "no pod is replaced: " + p.Blocked
	case len(p.Nodes) == 0 && atOnce:
		return "no node is upgraded; see what happens at once"
	case len(p.Nodes) == 0 && len(p.Left) == 0:
		return "nothing to do"
	case len(p.Nodes) == 0:
		return "no node is upgraded"
	}
	took := "how long is not known before the first node is done"
	if p.Seconds > 0 {
		took = "about " + duration.HumanDuration(time.Duration(p.Seconds)*time.Second)
	}
	return fmt.Sprintf("%d of %s upgraded, at most %d unavailable at once; %s",
		len(p.Nodes), message.Count(p.Total, "node"), p.MaxUnavailable, took)
}

// changeWords describe the changes of a component.
var changeWords = map[preview.Change]string{
	preview.Upgrade:  "upgraded node by node",
	preview.Restart:  "unchanged, but its pods are replaced because of other components",
	preview.Deploy:   "deployed AT ONCE on every node, when the components before it run",
	preview.Remove:   "removed node by node",
	preview.Rename:   "replaced node by node, under its new name or namespace",
	preview.Delete:   "deleted AT ONCE on every node, bypassing budget, waves, approval and drain",
	preview.Redeploy: "deleted AT ONCE on every node, bypassing budget, waves, approval and drain; then deployed under its new name or namespace",
	preview.Update:   "its pods are replaced AT ONCE by Kubernetes",
}

func componentsText(p *preview.Preview, s Style) string {
	if len(p.Components) == 0 {
		return ""
	}
	t := Table{Header: []string{"COMPONENT", "NODES", "WHAT HAPPENS", "IMAGES"}}
	for _, c := range p.Components {
		what, tone := changeWords[c.Change], Plain
		switch {
		case c.LeftOut && c.Nodes > 0:
			what = "waits, except on nodes where its pods are replaced because of other components"
		case c.LeftOut:
			what = "waits: the upgrade is limited to others"
		}
		nodes := strconv.Itoa(c.Nodes)
		if c.Change.AtOnce() {
			nodes, tone = "all", Busy
		}
		var images []string
		for _, i := range c.Images {
			images = append(images, imageWords(i))
		}
		t.Rows = append(t.Rows, []Cell{{Text: c.Name}, {Text: nodes}, {Text: what, Tone: tone}, {Text: strings.Join(images, ", ")}})
	}
	return t.Text(s)
}

// imageWords leaves out the registry that both images share.
func imageWords(i preview.Image) string {
	if path.Dir(i.From) == path.Dir(i.To) {
		return path.Base(i.From) + " -> " + path.Base(i.To)
	}
	return i.From + " -> " + i.To
}

// aboutNodes returns the wave and the disruption of a node.
func aboutNodes(p *preview.Preview) func(string) string {
	of := make(map[string]string, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		of[n.Name] = string(n.Disruption)
		if n.Wave != "" {
			of[n.Name] = "wave " + n.Wave + ", " + of[n.Name]
		}
	}
	return func(name string) string { return of[name] }
}

func batchesText(p *preview.Preview) string {
	if len(p.Plan) == 0 {
		return ""
	}
	return upgradeplan.Table(p.Plan, aboutNodes(p))
}

// PlanMermaid draws the batches of a preview.
func PlanMermaid(p *preview.Preview) string { return upgradeplan.Mermaid(p.Plan, aboutNodes(p)) }

// groups groups names by message, in the order of the first occurrence.
type groups struct {
	said  []string
	names map[string][]string
}

func (g *groups) add(said, name string) {
	if g.names == nil {
		g.names = map[string][]string{}
	}
	if g.names[said] == nil {
		g.said = append(g.said, said)
	}
	g.names[said] = append(g.names[said], name)
}

// evictionsText lists the pods that are evicted, and what blocks nodes.
func evictionsText(p *preview.Preview, s Style) string {
	var b strings.Builder
	pods, nodes := 0, 0
	t := Table{Header: []string{"NODE", "EVICTED PODS"}, Indent: "  "}
	var blocked groups
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.BlockedBy != "" {
			blocked.add(n.BlockedBy, n.Name)
		}
		if len(n.Evicts) == 0 {
			continue
		}
		pods, nodes = pods+len(n.Evicts), nodes+1
		if len(t.Rows) < listed || s.Wide {
			t.Rows = append(t.Rows, []Cell{{Text: n.Name}, {Text: message.Names(n.Evicts)}})
		}
	}
	if pods > 0 {
		fmt.Fprintf(&b, "%s evicted from %s:\n%s", message.Count(pods, "pod"), message.Count(nodes, "node"), t.Text(s))
		if more := nodes - len(t.Rows); more > 0 {
			fmt.Fprintf(&b, "  and from %s more: -o wide\n", message.Count(more, "node"))
		}
	}
	if len(blocked.said) > 0 {
		fmt.Fprintf(&b, "%s would be blocked while they are emptied:\n", message.Count(blocked.total(), "node"))
		for i, said := range blocked.said {
			if i == listed && !s.Wide {
				fmt.Fprintf(&b, "  and %s more: -o wide\n", message.Count(len(blocked.said)-i, "reason"))
				break
			}
			fmt.Fprintf(&b, "  %s: %s\n", message.Names(blocked.names[said]), plaintext.Line(said))
		}
	}
	return b.String()
}

// listed limits lists without -o wide.
const listed = 10

func (g *groups) total() int {
	n := 0
	for _, names := range g.names {
		n += len(names)
	}
	return n
}

// leftText lists the nodes that are not upgraded, and what to do.
func leftText(p *preview.Preview, s Style) string {
	if len(p.Left) == 0 {
		return ""
	}
	byReason := map[string]*groups{}
	for _, n := range p.Left {
		if byReason[n.Reason] == nil {
			byReason[n.Reason] = &groups{}
		}
		byReason[n.Reason].add(n.Message, n.Name)
	}
	t := Table{Header: []string{"NODES", "REASON", "WHICH", "MESSAGE", "WHAT TO DO"}, Indent: "  "}
	reasons := slices.SortedFunc(maps.Keys(byReason), func(a, b string) int {
		return cmp.Or(cmp.Compare(byReason[b].total(), byReason[a].total()), cmp.Compare(a, b))
	})
	for _, reason := range reasons {
		g := byReason[reason]
		others := g.total()
		for i, said := range g.said {
			if i == listed && !s.Wide {
				t.Rows = append(t.Rows, []Cell{{Text: strconv.Itoa(others)}, {Text: reason}, {Text: "and others: -o wide"}, {}, {}})
				break
			}
			others -= len(g.names[said])
			t.Rows = append(t.Rows, []Cell{{Text: strconv.Itoa(len(g.names[said]))}, {Text: reason}, {Text: message.Names(g.names[said])},
				{Text: said}, {Text: Advice(reason, p.GcuResource)}})
		}
	}
	text := fmt.Sprintf("%s not upgraded:\n", message.Count(len(p.Left), "node")) + t.Text(s)
	if byReason[string(rollout.ReasonAwaitingApproval)] != nil {
		text += "  kubectl gcu plan --approved shows what follows the approvals\n"
	}
	return text
}

// nodesText has a line per node.
func nodesText(p *preview.Preview, s Style) string {
	if len(p.Nodes) == 0 {
		return ""
	}
	t := Table{Header: []string{"NODE", "STARTS", "WAVE", "DISRUPTION", "REPLACED", "EVICTED PODS", "BLOCKED BY"}}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		t.Rows = append(t.Rows, []Cell{{Text: n.Name}, {Text: starts(p, n)}, {Text: n.Wave}, {Text: string(n.Disruption)},
			{Text: strings.Join(n.Replaces, ", ")}, {Text: strings.Join(n.Evicts, ", ")}, {Text: n.BlockedBy}})
	}
	return t.Text(s)
}

// starts is when a node starts, or its turn if the pace is unknown.
func starts(p *preview.Preview, n *preview.Node) string {
	if p.Seconds == 0 {
		return "turn " + strconv.FormatInt(n.AfterSeconds+1, 10)
	}
	return "after " + duration.HumanDuration(time.Duration(n.AfterSeconds)*time.Second)
}
