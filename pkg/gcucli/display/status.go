package display

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Status is the state of a gr and its rollout.
type Status struct {
	// Name of the gr.
	Name string `json:"name"`
	// Outcome summarizes the state, with why and what to do.
	Outcome Outcome `json:"outcome"`
	// Phase and Ready as in the status of the gr.
	Phase string `json:"phase,omitempty"`
	Ready string `json:"ready,omitempty"`
	// Strategy and Policy are those of the annotations; empty for none.
	Strategy   string      `json:"strategy,omitempty"`
	Policy     string      `json:"policy,omitempty"`
	Components []Component `json:"components"`
	// Rollout is absent if there is none, as without an update strategy, or if it is not found.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Nodes that need attention: failed, stuck, deferred, skipped.
	Nodes []Node `json:"nodes"`
	// NotShown lists what could not be read, and why.
	NotShown []string `json:"notShown,omitempty"`
}

// Component is one component of a gr.
type Component struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Version in the spec that is deployed; empty if unset.
	Version string `json:"version,omitempty"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// StatusOf describes a gr, with the spec that is deployed. dro is its rollout, or nil; upgrades may include those of other
// nodes; notShown lists what could not be read.
func StatusOf(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout, upgrades []topsv1.NodeUpgrade, notShown []string, now time.Time) Status {
	return Status{
		Name: gr.Name, Outcome: OutcomeOf(gr, dro), Phase: gr.Status.Phase, Ready: gr.Status.ReadyResource,
		Strategy:   StrategyOf(gr.Annotations),
		Policy:     gr.Annotations[topsv1.AnnotationUpgradePolicy],
		Components: componentsOf(gr), Rollout: rolloutOf(gr.Name, dro),
		Nodes: append([]Node{}, troubled(gr.Name, dro, upgrades, now)...), NotShown: notShown,
	}
}

// WithoutRollout notes that the rollout which the gr should have is not found, and why: only the rollout says whether the nodes have
// the newest spec.
func (s *Status) WithoutRollout(why string) {
	s.NotShown = append(s.NotShown, "the rollout: "+why)
	if s.Outcome.State == Done {
		s.Outcome = Outcome{State: Working, Reason: ReasonNotSeen, Message: "its DaemonRollout is not found", Do: Advice(ReasonNotSeen, s.Name)}
	}
}

func componentsOf(gr *topsv1.GcuResource) []Component {
	versions := versionsOf(&gr.Spec)
	list := []Component{}
	for _, r := range gr.Status.ResourceStatuses {
		list = append(list, Component{Name: r.Name, Namespace: r.Namespace, Status: r.Status, Message: r.Message, Version: versions[r.Name]})
	}
	return list
}

// versionsOf returns the versions of the components in a spec, by key. nfd has that of its
// master.
func versionsOf(spec *topsv1.GcuResourceSpec) map[string]string {
	var fields map[string]struct {
		Version string `json:"version"`
		Master  struct {
			Version string `json:"version"`
		} `json:"master"`
	}
	versions := map[string]string{}
	components := *spec
	components.ImagePullSecrets = nil
	data, err := json.Marshal(components)
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return versions // a decoded spec can be encoded
	}
	for name, f := range fields {
		versions[name] = cmp.Or(f.Version, f.Master.Version)
	}
	versions["devicePlugin"] = cmp.Or(versions["devicePlugin"], versions["plugin"])
	return versions
}

// Text returns the status as text.
func (s *Status) Text(style Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "GcuResource %s: %s", s.Name, style.paint(s.Outcome.State.tone(), string(s.Outcome.State)))
	if s.Outcome.Reason != "" {
		fmt.Fprintf(&b, " (%s)", s.Outcome.Reason)
	}
	if s.Outcome.Since != nil {
		fmt.Fprintf(&b, " for %s", style.age(*s.Outcome.Since))
	}
	fmt.Fprintf(&b, "; phase %s, %s ready\n", cmp.Or(s.Phase, "not set yet"), cmp.Or(s.Ready, "no components"))
	if s.Outcome.Message != "" {
		fmt.Fprintf(&b, "  %s\n", plaintext.Line(s.Outcome.Message))
	}
	if s.Outcome.Do != "" {
		fmt.Fprintf(&b, "  what to do: %s\n", s.Outcome.Do)
	}
	b.WriteString(s.components(style))
	if s.Rollout != nil {
		b.WriteString("\n" + s.Rollout.text(style))
	}
	if len(s.Nodes) > 0 {
		fmt.Fprintf(&b, "\n%s to look at:\n", message.Count(len(s.Nodes), "node"))
		b.WriteString(s.nodes(style))
	}
	for _, n := range s.NotShown {
		b.WriteString("\nnot shown: " + n + "\n")
	}
	return b.String()
}

// shortDigest shortens the digest of a version to the 12 digits that docker prints.
func shortDigest(version string) string {
	const name, digits = "sha256:", 12
	if at := strings.Index(version, name); at >= 0 && len(version) > at+len(name)+digits {
		return version[:at+len(name)+digits]
	}
	return version
}

func (s *Status) components(style Style) string {
	if len(s.Components) == 0 {
		return ""
	}
	t := Table{Header: []string{"COMPONENT", "STATUS", "VERSION", "NAMESPACE", "MESSAGE"}}
	for _, c := range s.Components {
		row := cells(c.Name, c.Status, shortDigest(c.Version), "", c.Message)
		row[1].Tone = toneOfPhase(c.Status)
		if style.Wide {
			row[3].Text = c.Namespace
		}
		t.Rows = append(t.Rows, row)
	}
	return "\n" + t.Text(style)
}

func toneOfPhase(phase string) Tone {
	switch phase {
	case topsv1.PhaseRunning:
		return Good
	case topsv1.PhaseFailed:
		return Bad
	}
	return Busy
}

func (s *Status) nodes(style Style) string {
	t := nodeTable(s.Nodes, style)
	t.Indent = "  "
	if more := s.unlisted(); more > 0 {
		return t.Text(style) + fmt.Sprintf("  and %s more that are skipped: kubectl gcu nodes %s --state skipped\n", message.Count(more, "node"), s.Name)
	}
	return t.Text(style)
}

// unlisted counts the skipped nodes that the rollout's status has no room to list.
func (s *Status) unlisted() int {
	skipped := 0
	for i := range s.Nodes {
		if s.Nodes[i].State == "skipped" {
			skipped++
		}
	}
	return int(s.Rollout.Nodes.Skipped) - skipped
}

// Line returns the status in one line, for a log.
func (s *Status) Line() string {
	if s.Rollout == nil {
		return plaintext.Line(fmt.Sprintf("%s: %s ready; %s", s.Outcome.State, cmp.Or(s.Ready, "nothing"), cmp.Or(s.Outcome.Message, s.Outcome.Reason)))
	}
	line := plaintext.Line(fmt.Sprintf("%s: %s; %s", s.Outcome.State, s.Rollout.Nodes, s.Rollout.State))
	if eta := s.Rollout.eta(); eta != "" {
		line += ", " + eta
	}
	return line
}

// Progress returns the status in one line of at most width columns, with a bar.
func (s *Status) Progress(style Style, width int) string {
	words, bar := s.Line(), ""
	if s.Rollout != nil {
		bar = s.Rollout.Nodes.Bar(min(barWidth, width/3), style) + " "
		width -= min(barWidth, width/3) + len("[] ")
		words = s.Rollout.short()
	}
	return bar + columns.Truncate(words, max(1, width-1), "…")
}
