package display

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Window is when the maintenance window of a policy is open for nodes of a gr.
type Window struct {
	// TimeZone is the IANA name of its time zone; empty if Problem says why there is none.
	TimeZone string `json:"timeZone,omitempty"`
	// Problem is what is wrong with the time zone that the nodes name: they are not started.
	Problem string `json:"problem,omitempty"`
	// Open reports whether nodes may be started now.
	Open bool `json:"open"`
	// Opens is when it opens next, and Closes when it closes next; absent if it never closes.
	Opens  *metav1.Time `json:"opens,omitempty"`
	Closes *metav1.Time `json:"closes,omitempty"`
	// Nodes counts the nodes to which this window applies. Names has some of their names; it is empty if it applies
	// to all nodes of the gr.
	Nodes int32  `json:"nodes"`
	Names string `json:"names,omitempty"`
}

// AskNodes reports whether the maintenance window of a policy depends on the labels of the nodes.
func AskNodes(policy *topsv1.UpgradePolicy) bool {
	return policy != nil && policy.Spec.Window != nil && policy.Spec.Window.TimeZoneNodeLabel != ""
}

// WindowsOf describes the maintenance window of the policy of a rollout, one entry per time zone of its
// nodes. labels are those of the nodes, by name; they are needed if AskNodes says so. It is nil without a
// window, under OTA, where none applies, and if the policy is wrong, which the rollout says.
func WindowsOf(dro *topsv1.DaemonRollout, policy *topsv1.UpgradePolicy, labels map[string]map[string]string, now time.Time) []Window {
	if dro == nil || policy == nil || dro.Status.Strategy == string(daemonset.OTA) {
		return nil
	}
	byZone, err := observed.WindowsByZone(&policy.Spec, labels, now)
	if err != nil {
		return nil
	}
	var windows []Window
	for _, o := range byZone {
		w := Window{Problem: o.Problem, Open: o.Open, Nodes: dro.Status.Total}
		if AskNodes(policy) {
			w.Nodes, w.Names = int32(len(o.Nodes)), message.Names(o.Nodes)
		}
		if o.Zone != nil {
			w.TimeZone = o.Zone.String()
			w.Opens, w.Closes = inZone(o.Opens, o.Zone), inZone(o.Closes, o.Zone)
		}
		windows = append(windows, w)
	}
	return windows
}

// inZone returns a time in a zone, nil for the zero time.
func inZone(t time.Time, zone *time.Location) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.In(zone)}
}

// windowTime is the layout of a time in the zone of a window.
const windowTime = "Mon Jan 2 15:04 MST"

// text describes the window in one line.
func (w *Window) text() string {
	text := "window: "
	switch {
	case w.Problem != "":
		text += "never open: " + w.Problem
	case w.Closes == nil:
		text += "always open"
	case w.Open:
		text += fmt.Sprintf("open until %s, and again from %s", w.Closes.Format(windowTime), w.Opens.Format(windowTime))
	default:
		text += fmt.Sprintf("closed, opens %s until %s", w.Opens.Format(windowTime), w.Closes.Format(windowTime))
	}
	if w.Names != "" {
		text += fmt.Sprintf(", for %s (%s)", message.Count(int(w.Nodes), "node"), w.Names)
	}
	return text
}

// windowsText describes the maintenance window, a line per time zone.
func windowsText(windows []Window) string {
	var b strings.Builder
	for i := range windows {
		b.WriteString("  " + plaintext.Line(windows[i].text()) + "\n")
	}
	return b.String()
}
