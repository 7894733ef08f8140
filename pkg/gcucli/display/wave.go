package display

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// WaveState is the state of a wave of a policy.
type WaveState string

// States of a wave.
const (
	// WaveComplete: every reachable node of the wave was updated.
	WaveComplete WaveState = "Complete"
	// WaveSoaking: the wave is complete, but the next one may not start yet.
	WaveSoaking WaveState = "Soaking"
	// WaveOpen: its nodes may be started.
	WaveOpen WaveState = "Open"
	// WaveAwaitsApproval: the wave is next, and needs an approval.
	WaveAwaitsApproval WaveState = "AwaitingApproval"
	// WaveNotReached: an earlier wave comes first.
	WaveNotReached WaveState = "NotReached"
)

// Wave is one wave of the rollout of a gr.
type Wave struct {
	Name    string    `json:"name"`
	State   WaveState `json:"state"`
	Total   int32     `json:"total"`
	Updated int32     `json:"updated"`
	// Manual is true if it needs an approval, Approved if it has one.
	Manual   bool `json:"manual"`
	Approved bool `json:"approved"`
	// Awaits is the name of what has to be approved next: the wave, or its batch of a plan; "" for nothing.
	Awaits string `json:"-"`
	// entry is its approval.
	entry string
	// Until is the end of its soak.
	Until *metav1.Time `json:"until,omitempty"`
}

// WavesOf describes the waves of a rollout, in order, each divided into the batches of the plan in
// force. Nodes in no wave come last. policy and plan may be nil.
func WavesOf(dro *topsv1.DaemonRollout, policy *topsv1.UpgradePolicy, plan *topsv1.UpgradePlan, now time.Time) []Wave {
	list, reached := []Wave{}, true
	for _, st := range dro.Status.Waves {
		w := Wave{Name: st.Name, Total: st.Total, Updated: st.Updated, State: WaveNotReached}
		required, soak := requiredApprovals(st.Name, dro.Status.LimitedTo, policy, plan)
		if dro.Status.Strategy == string(daemonset.OTA) {
			required = nil // only a request starts a node, and it needs no approval
		}
		missing := slices.DeleteFunc(slices.Clone(required), func(g requiredApproval) bool { return slices.Contains(dro.Approvals(), approval(dro, g.approval)) })
		if w.Manual, w.Approved = len(required) > 0, len(required) > 0 && len(missing) == 0; len(missing) > 0 {
			w.Awaits, w.entry = missing[0].name, approval(dro, missing[0].approval)
		}
		switch {
		case !reached && w.Awaits != "" && awaited(dro, w.entry): // a node of it that does not work would go first
			w.State = WaveAwaitsApproval
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

// awaited reports whether nodes of a rollout wait for an approval.
func awaited(dro *topsv1.DaemonRollout, entry string) bool {
	return slices.ContainsFunc(dro.Status.Waiting, func(w topsv1.WaitingNote) bool {
		return w.Reason == string(rollout.ReasonAwaitingApproval) && strings.HasSuffix(w.Message, " as "+entry)
	})
}

// requiredApproval is a wave, or a batch of a plan, that needs an approval.
type requiredApproval struct {
	name string
	// approval is what an approval names.
	approval string
}

// requiredApprovals returns which approvals a part of a rollout needs, and how long it soaks. limit is what the
// progress of the rollout refers to.
func requiredApprovals(part, limit string, policy *topsv1.UpgradePolicy, plan *topsv1.UpgradePlan) (required []requiredApproval, soak time.Duration) {
	name, batch := partsOf(part, policy, plan)
	if wave := waveNamed(policy, name); wave != nil {
		if wave.Approval == topsv1.ApprovalManual {
			required = append(required, requiredApproval{name, name})
		}
		if batch == "" || batch == rollout.RestWave { // its last part
			soak = time.Duration(wave.SoakSeconds) * time.Second
		}
	}
	if plan != nil && slices.ContainsFunc(plan.Spec.Batches, func(b topsv1.PlannedBatch) bool { return b.Name == batch && b.Approval == topsv1.ApprovalManual }) {
		required = append(required, requiredApproval{part, rollout.BatchApproval(part, limit)})
	}
	return required, soak
}

// waveNamed returns the wave of a policy with a name, nil if there is none.
func waveNamed(policy *topsv1.UpgradePolicy, name string) *topsv1.Wave {
	if policy == nil {
		return nil
	}
	for i := range policy.Spec.Waves {
		if policy.Spec.Waves[i].Name == name {
			return &policy.Spec.Waves[i]
		}
	}
	return nil
}

// partsOf splits the name of a part of a rollout into its wave, if its policy has some, and its batch, "" for none. A plan
// may have the name of a wave.
func partsOf(name string, policy *topsv1.UpgradePolicy, plan *topsv1.UpgradePlan) (wave, batch string) {
	if plan == nil {
		return name, ""
	}
	if batch, is := strings.CutPrefix(name, plan.Name+"/"); is && (policy == nil || len(policy.Spec.Waves) == 0) {
		return "", batch
	}
	if wave, batch, is := strings.Cut(name, "/"+plan.Name+"/"); is {
		return wave, batch
	}
	return name, ""
}

// lastingApprovals returns the approvals of a DaemonRollout for its revision and for the last known good one, to which an
// automatic rollback returns.
func lastingApprovals(dro *topsv1.DaemonRollout) []string {
	return slices.DeleteFunc(dro.Approvals(), func(entry string) bool {
		revision, _, _ := strings.Cut(entry, "/")
		return revision != dro.Status.Revision && (dro.Status.LastKnownGood == nil || revision != dro.Status.LastKnownGood.Revision)
	})
}

// approval returns the approval of a wave, or of what BatchApproval names, at the current revision.
func approval(dro *topsv1.DaemonRollout, wave string) string {
	return dro.Status.Revision + "/" + wave
}

// Approval is what Approve approves.
type Approval struct {
	// Name of the wave, or of the part of a plan.
	Name string
	// Annotation is the value with it, in addition to existing approvals that may still be needed.
	Annotation string
	// Already is true if that changes nothing.
	Already bool
}

// Approve approves a wave, or a batch of a plan, at the current revision of the rollout. A batch may be named with the version
// of its plan, as messages do. Nothing else is approved: the error says why the named wave does not wait for an approval, or
// which one comes first.
func Approve(dro *topsv1.DaemonRollout, waves []Wave, wave string) (Approval, error) {
	if i := slices.IndexFunc(waves, func(w Wave) bool {
		return w.State == WaveAwaitsApproval && (isNamed(w.Awaits, wave) || w.entry == approval(dro, wave))
	}); i >= 0 {
		return Approval{Name: waves[i].Awaits, Annotation: strings.Join(append(lastingApprovals(dro), waves[i].entry), ",")}, nil
	}
	i := slices.IndexFunc(waves, func(w Wave) bool { return isNamed(w.Name, wave) })
	switch {
	case i < 0:
		return Approval{}, fmt.Errorf("the rollout has no wave %q; %s", wave, WhichWait(waves))
	case waves[i].Approved:
		return Approval{waves[i].Name, dro.Annotations[topsv1.AnnotationApprovedWaves], true}, nil
	case waves[i].State == WaveAwaitsApproval:
		return Approval{}, fmt.Errorf("%s waits for the approval of wave %s: approve that first", waves[i].Name, waves[i].Awaits)
	}
	return Approval{}, fmt.Errorf("wave %s does not wait for an approval, it is %s; %s", wave, waves[i].State, WhichWait(waves))
}

// isNamed reports whether given is the name of a wave or of a part of a plan, in full or only its batch.
func isNamed(name, given string) bool { return name == given || strings.HasSuffix(name, "/"+given) }

// WhichWait describes which waves wait for an approval.
func WhichWait(waves []Wave) string {
	for _, w := range waves {
		if w.State == WaveAwaitsApproval {
			return fmt.Sprintf("wave %s waits", w.Awaits)
		}
	}
	return "no wave waits"
}

// WavesText has one line per wave.
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
