package display

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Rollout is the state of the rollout of a gr.
type Rollout struct {
	// Namespace and Name are those of the DaemonRollout.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Strategy  string `json:"strategy,omitempty"`
	// State is the reason of condition Progressing.
	State   string       `json:"state,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	// Revision is the target.
	Revision string `json:"revision,omitempty"`
	Paused   bool   `json:"paused"`
	Halted   bool   `json:"halted"`
	// MaxUnavailable bounds the unavailable nodes, Unavailable counts them.
	MaxUnavailable int32  `json:"maxUnavailable"`
	Unavailable    int32  `json:"unavailable"`
	Nodes          Counts `json:"nodes"`
	// NotPrepulled counts the nodes left to do whose images are not pulled before they start.
	NotPrepulled int32 `json:"notPrepulled,omitempty"`
	// ETASeconds is the time to completion at the usual pace; 0 if unknown.
	ETASeconds int32 `json:"etaSeconds"`
	// UsualSeconds is how long a node takes; 0 if none has finished.
	UsualSeconds int32       `json:"usualSeconds"`
	Waves        []WaveCount `json:"waves,omitempty"`
	// Windows is the maintenance window; the caller adds what WindowsOf returns.
	Windows   []Window     `json:"windows,omitempty"`
	Waiting   []WaitingFor `json:"waiting,omitempty"`
	Rollback  *RolledBack  `json:"rollback,omitempty"`
	KnownGood string       `json:"lastKnownGood,omitempty"`
}

// Counts of nodes by their state; the states add up to Total.
type Counts struct {
	Total    int32 `json:"total"`
	Updated  int32 `json:"updated"`
	InFlight int32 `json:"inFlight"`
	Pending  int32 `json:"pending"`
	Held     int32 `json:"held"`
	Skipped  int32 `json:"skipped"`
	Failed   int32 `json:"failed"`
	Pinned   int32 `json:"pinned,omitempty"`
}

// WaveCount is the progress of a wave.
type WaveCount struct {
	Name    string       `json:"name"`
	Total   int32        `json:"total"`
	Updated int32        `json:"updated"`
	Done    *metav1.Time `json:"done,omitempty"`
}

// WaitingFor is why some nodes wait.
type WaitingFor struct {
	Reason  string `json:"reason"`
	Nodes   int32  `json:"nodes"`
	Message string `json:"message,omitempty"`
	Do      string `json:"do,omitempty"`
}

// RolledBack is the latest rollback by a policy.
type RolledBack struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Rejected is the revision of the spec that is not deployed.
	Rejected string       `json:"rejected,omitempty"`
	Message  string       `json:"message,omitempty"`
	Time     metav1.Time  `json:"time"`
	Done     *metav1.Time `json:"done,omitempty"`
}

// rolloutOf describes a DaemonRollout of a gr; nil if there is none.
func rolloutOf(gr string, dro *topsv1.DaemonRollout) *Rollout {
	if dro == nil {
		return nil
	}
	s := &dro.Status
	r := &Rollout{
		Namespace: dro.Namespace, Name: dro.Name, Strategy: s.Strategy, Revision: s.Revision,
		Paused:         meta.IsStatusConditionTrue(s.Conditions, topsv1.RolloutPaused),
		Halted:         meta.IsStatusConditionTrue(s.Conditions, topsv1.RolloutHalted),
		MaxUnavailable: s.MaxUnavailable, Unavailable: s.Unavailable, ETASeconds: s.ETASeconds, UsualSeconds: s.UsualSeconds,
		Nodes: Counts{Total: s.Total, Updated: s.Updated, InFlight: s.InFlightNodes, Pending: s.Pending, Held: s.HeldNodes,
			Skipped: s.SkippedNodes, Failed: s.FailedNodes, Pinned: s.PinnedNodes},
		NotPrepulled: s.NotPrepulledNodes,
	}
	if c := progressing(dro); c != nil {
		r.State, r.Message, r.Since = c.Reason, c.Message, &c.LastTransitionTime
	}
	for _, w := range s.Waves {
		r.Waves = append(r.Waves, WaveCount{Name: w.Name, Total: w.Total, Updated: w.Updated, Done: w.CompletedTime})
	}
	for _, w := range s.Waiting {
		r.Waiting = append(r.Waiting, WaitingFor{Reason: w.Reason, Nodes: w.Nodes, Message: w.Message, Do: adviceFor(w.Reason, gr, "", "")})
	}
	if rb := s.Rollback; rb != nil {
		r.Rollback = &RolledBack{From: rb.From, To: rb.To, Rejected: rb.RejectedRevision, Message: rb.Message, Time: rb.Time, Done: rb.CompletedTime}
	}
	if s.LastKnownGood != nil {
		r.KnownGood = cmp.Or(s.LastKnownGood.GcuResourceRevision, s.LastKnownGood.Revision)
	}
	return r
}

// String returns the counts in one line.
func (c Counts) String() string {
	text := fmt.Sprintf("%d of %d updated, %d in flight, %d pending, %d held, %d skipped, %d failed",
		c.Updated, c.Total, c.InFlight, c.Pending, c.Held, c.Skipped, c.Failed)
	if c.Pinned > 0 {
		text += fmt.Sprintf(", %d pinned", c.Pinned)
	}
	return text
}

// eta describes the time to completion, "" if unknown.
func (r *Rollout) eta() string {
	if r.ETASeconds == 0 {
		return ""
	}
	return "about " + duration.HumanDuration(time.Duration(r.ETASeconds)*time.Second) + " to go"
}

// short describes the rollout in a few words, for a line with a bar.
func (r *Rollout) short() string {
	words := fmt.Sprintf("%d/%d updated", r.Nodes.Updated, r.Nodes.Total)
	if r.Nodes.Failed > 0 {
		words += fmt.Sprintf(", %d failed", r.Nodes.Failed)
	}
	words += ", " + plaintext.Line(r.State)
	if eta := r.eta(); eta != "" {
		words += ", " + eta
	}
	return words
}

// Bar draws the counts: # updated, > in flight, x failed, o skipped, . the rest. Every
// state with a node gets at least one character. Without nodes it returns "".
func (c Counts) Bar(width int, s Style) string {
	if c.Total == 0 {
		return ""
	}
	parts := []struct {
		nodes int32
		mark  string
		tone  Tone
	}{{c.Updated, "#", Good}, {c.InFlight, ">", Busy}, {c.Failed, "x", Bad}, {c.Skipped, "o", Plain}, {c.Pending + c.Held, ".", Plain}}
	places, used, widest := make([]int, len(parts)), 0, 0
	for i, p := range parts {
		if p.nodes > 0 {
			places[i] = max(1, int(p.nodes)*width/int(c.Total))
		}
		if used += places[i]; places[i] > places[widest] {
			widest = i
		}
	}
	places[widest] += width - used // the rounding error
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(s.paint(p.tone, strings.Repeat(p.mark, max(0, places[i]))))
	}
	return "[" + b.String() + "]"
}

// barWidth is the width of the bar in a status.
const barWidth = 40

// text writes the rollout below the components.
func (r *Rollout) text(s Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Rollout %s/%s: %s", r.Namespace, r.Name, s.paint(r.tone(), cmp.Or(r.State, "not decided yet")))
	if r.Since != nil {
		fmt.Fprintf(&b, " for %s", s.age(*r.Since))
	}
	fmt.Fprintf(&b, "; strategy %s, %d of at most %s unavailable", cmp.Or(r.Strategy, "unknown"), r.Unavailable, message.Count(int(r.MaxUnavailable), "node"))
	if eta := r.eta(); eta != "" {
		b.WriteString("; " + eta)
	}
	b.WriteByte('\n')
	if r.Nodes.Total > 0 {
		fmt.Fprintf(&b, "  %s %s\n", r.Nodes.Bar(barWidth, s), r.Nodes)
	}
	if r.NotPrepulled > 0 {
		fmt.Fprintf(&b, "  on %s still to be upgraded, the kubelet pulls the images when the new pod starts\n", message.Count(int(r.NotPrepulled), "node"))
	}
	if rb := r.Rollback; rb != nil {
		b.WriteString(rb.text(s))
	}
	if s.Wide {
		fmt.Fprintf(&b, "  revision %s, last known good %s, a node usually takes %ds\n", r.Revision, cmp.Or(r.KnownGood, "none"), r.UsualSeconds)
	}
	b.WriteString(r.waves())
	b.WriteString(windowsText(r.Windows))
	b.WriteString(r.waiting(s))
	return b.String()
}

func (r *Rollout) tone() Tone {
	switch {
	case r.Halted || r.State == topsv1.ReasonNodesFailed:
		return Bad
	case strings.HasPrefix(r.State, "Complete"):
		return Good
	}
	return Busy
}

// text describes the rollback.
func (rb *RolledBack) text(s Style) string {
	what := "rolled back by policy " + s.age(rb.Time) + " ago"
	if rb.Done == nil {
		what = "is being rolled back by policy for " + s.age(rb.Time)
	}
	if s.Wide {
		what += ", from revision " + rb.From + " to " + rb.To
	}
	text := "  " + what + ": " + plaintext.Line(rb.Message) + "\n"
	if rb.Rejected != "" {
		text += "  " + plaintext.Line(rb.Rejected) + " is rejected until the spec changes or the rollout is resumed\n"
	}
	return text
}

// waves describes the waves that have nodes in one line, "" if all nodes are in one wave.
func (r *Rollout) waves() string {
	list := make([]string, 0, len(r.Waves))
	for _, w := range r.Waves {
		if w.Total == 0 {
			continue
		}
		list = append(list, fmt.Sprintf("%s %d/%d", w.Name, w.Updated, w.Total))
	}
	if len(list) < 2 {
		return ""
	}
	return "  waves: " + plaintext.Line(strings.Join(list, ", ")) + "\n"
}

func (r *Rollout) waiting(s Style) string {
	if len(r.Waiting) == 0 {
		return ""
	}
	t := Table{Header: []string{"NODES", "WAIT FOR", "MESSAGE", "WHAT TO DO"}, Indent: "  "}
	for _, w := range r.Waiting {
		t.Rows = append(t.Rows, cells(fmt.Sprint(w.Nodes), w.Reason, w.Message, w.Do))
	}
	return t.Text(s)
}
