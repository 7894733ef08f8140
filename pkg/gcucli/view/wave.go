package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// WaveState is how far a wave of a policy is.
type WaveState string

// States of a wave.
const (
	// WaveComplete: every reachable node of it was updated.
	WaveComplete WaveState = "Complete"
	// WaveSoaking: it is complete, and the next one does not start yet.
	WaveSoaking WaveState = "Soaking"
	// WaveOpen: its nodes may be started.
	WaveOpen WaveState = "Open"
	// WaveAwaitsApproval: it would be its turn.
	WaveAwaitsApproval WaveState = "AwaitingApproval"
	// WaveNotReached: another one comes first.
	WaveNotReached WaveState = "NotReached"
)

// Wave is one wave of the rollout of a gr.
type Wave struct {
	Name    string    `json:"name"`
	State   WaveState `json:"state"`
	Total   int32     `json:"total"`
	Updated int32     `json:"updated"`
	// Manual: it needs an approval, which it has when Approved.
	Manual   bool `json:"manual"`
	Approved bool `json:"approved"`
	// Until when it soaks.
	Until *metav1.Time `json:"until,omitempty"`
}

// WavesOf says how far the waves of a rollout are, in order. Nodes in no wave are
// the last one.
func WavesOf(dro *topsv1.DaemonRollout, policy *topsv1.UpgradePolicy, now time.Time) []Wave {
	list, reached := []Wave{}, true
	for _, st := range dro.Status.Waves {
		w := Wave{Name: st.Name, Total: st.Total, Updated: st.Updated, State: WaveNotReached}
		soak := time.Duration(0)
		if i := slices.IndexFunc(policy.Spec.Waves, func(p topsv1.Wave) bool { return p.Name == st.Name }); i >= 0 {
			w.Manual = policy.Spec.Waves[i].Approval == topsv1.ApprovalManual
			soak = time.Duration(policy.Spec.Waves[i].SoakSeconds) * time.Second
		}
		w.Approved = w.Manual && slices.Contains(approvals(dro), approval(dro, st.Name))
		switch {
		case !reached:
		case w.Manual && !w.Approved:
			w.State = WaveAwaitsApproval
		case st.CompletedTime == nil:
			w.State = WaveOpen
		case st.CompletedTime.Add(soak).After(now):
			until := metav1.NewTime(st.CompletedTime.Add(soak))
			w.State, w.Until = WaveSoaking, &until
		default:
			w.State = WaveComplete
		}
		reached = reached && w.State == WaveComplete
		list = append(list, w)
	}
	return list
}

// approvals are those of a DaemonRollout, for whatever revision.
func approvals(dro *topsv1.DaemonRollout) []string {
	var list []string
	for _, entry := range strings.Split(dro.Annotations[topsv1.AnnotationApprovedWaves], ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			list = append(list, entry)
		}
	}
	return list
}

func approval(dro *topsv1.DaemonRollout, wave string) string {
	return dro.Status.Revision + "/" + wave
}

// Approve returns the annotation with a wave approved at the present revision of
// the rollout, beside the approvals that it has. Already is true when that changes
// nothing. The error says why the wave does not wait for an approval.
func Approve(dro *topsv1.DaemonRollout, waves []Wave, wave string) (annotation string, already bool, err error) {
	i := slices.IndexFunc(waves, func(w Wave) bool { return w.Name == wave })
	switch {
	case i < 0:
		return "", false, fmt.Errorf("the rollout has no wave %q; %s", wave, WhichWait(waves))
	case waves[i].Approved:
		return dro.Annotations[topsv1.AnnotationApprovedWaves], true, nil
	case waves[i].State != WaveAwaitsApproval:
		return "", false, fmt.Errorf("wave %s does not wait for an approval, it is %s; %s", wave, waves[i].State, WhichWait(waves))
	}
	return strings.Join(append(approvals(dro), approval(dro, wave)), ","), false, nil
}

// WhichWait says which waves wait for an approval.
func WhichWait(waves []Wave) string {
	for _, w := range waves {
		if w.State == WaveAwaitsApproval {
			return fmt.Sprintf("wave %s waits", w.Name)
		}
	}
	return "no wave waits"
}

// WavesText is one line per wave.
func WavesText(waves []Wave, s Style) string {
	t := Table{Header: []string{"WAVE", "STATE", "UPDATED", "NODES", "APPROVAL", "UNTIL"}}
	for _, w := range waves {
		row := cells(w.Name, string(w.State), fmt.Sprint(w.Updated), fmt.Sprint(w.Total), "automatic", "")
		switch {
		case w.Approved:
			row[4].Text = "given"
		case w.Manual:
			row[4].Text = "missing"
		}
		if w.Until != nil {
			row[5].Text = w.Until.UTC().Format(time.RFC3339)
		}
		if w.State == WaveAwaitsApproval {
			row[1].Tone = Busy
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Text(s)
}
