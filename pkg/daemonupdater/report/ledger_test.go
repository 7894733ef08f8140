package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestALedgerIsReadAsItWasStored(t *testing.T) {
	text := rapid.StringMatching(`[a-z0-9]{0,4}`)
	seconds := rapid.Custom(func(t *rapid.T) time.Time {
		return fixture.Epoch.Add(time.Duration(rapid.IntRange(-9999, 9999).Draw(t, "s")) * time.Second)
	})
	rapid.Check(t, func(t *rapid.T) {
		want := rollout.Ledger{Revision: text.Draw(t, "revision"), Limit: text.Draw(t, "limit"), Touched: rapid.IntRange(0, 5000).Draw(t, "touched"),
			Resumed: text.Draw(t, "resumed"), Usual: time.Duration(rapid.IntRange(0, 9999).Draw(t, "usual")) * time.Second}
		if rapid.Bool().Draw(t, "decided") {
			want.Decided = seconds.Draw(t, "decided at")
		}
		if rapid.Bool().Draw(t, "progressed") {
			want.LastStart, want.LastProgress = seconds.Draw(t, "last start"), seconds.Draw(t, "last progress")
		}
		for i := range rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "waves") {
			w := rollout.WaveProgress{Name: fmt.Sprint("w", i), Total: rapid.IntRange(0, 9).Draw(t, "total"), Updated: rapid.IntRange(0, 9).Draw(t, "updated")}
			if rapid.Bool().Draw(t, "complete") {
				w.Completed, w.Soaked = seconds.Draw(t, "completed"), seconds.Draw(t, "soaked")
			}
			want.Waves = append(want.Waves, w)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "slots") {
			want.Slots = append(want.Slots, rollout.Slot{Node: fmt.Sprint("n", i), UID: types.UID(text.Draw(t, "uid")),
				Since: seconds.Draw(t, "since"), Revision: text.Draw(t, "slot revision"), Pod: types.UID(text.Draw(t, "pod")),
				Progress: seconds.Draw(t, "progress"), Idle: time.Duration(rapid.IntRange(0, 9999).Draw(t, "idle")) * time.Second,
				Members: rapid.SampledFrom([][]string{nil, {"kube-system/driver"}, {"kube-system/driver", "kube-system/exporter"}}).Draw(t, "members")})
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "failures") {
			want.Failures = append(want.Failures, rollout.Failure{Node: fmt.Sprint("n", i), UID: types.UID(text.Draw(t, "uid")),
				Reason: rollout.Reason(text.Draw(t, "reason")), Message: text.Draw(t, "message"), Since: seconds.Draw(t, "since"), Machine: text.Draw(t, "machine"),
				Targets: rapid.SampledFrom([][]rollout.Target{nil, {{Member: "kube-system/driver", Revision: "r"}}}).Draw(t, "targets")})
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "pins") {
			want.Pins = append(want.Pins, rollout.Pin{Node: fmt.Sprint("n", i), UID: types.UID(text.Draw(t, "uid")), Machine: text.Draw(t, "machine"), Member: "kube-system/exporter",
				Revision: text.Draw(t, "pinned to"), From: text.Draw(t, "from"), Reason: rollout.Reason(text.Draw(t, "reason")), Message: text.Draw(t, "message"),
				Since: seconds.Draw(t, "since"), Failed: rapid.Bool().Draw(t, "failed")})
		}
		status := topsv1.DaemonRolloutStatus{Pinned: []topsv1.NodePin{{Node: "left over"}}, InFlight: []topsv1.NodeSlot{{Node: "left over"}}, Failed: []topsv1.NodeNote{{Node: "left over"}},
			Waves: []topsv1.WaveStatus{{Name: "left over"}}, UsualSeconds: 7, Resumed: "left over", LastDecisionTime: &metav1.Time{}, LastProgressTime: &metav1.Time{}}
		storeLedger(&status, want)
		if diff := cmp.Diff(want, observed.Ledger(&status, fixture.Epoch)); diff != "" {
			t.Fatalf("ledger (-stored +read):\n%s", diff)
		}
	})
}

func TestALedgerIsStoredInWholeSeconds(t *testing.T) {
	var status topsv1.DaemonRolloutStatus
	fraction := fixture.Epoch.Add(900 * time.Millisecond)
	storeLedger(&status, rollout.Ledger{Slots: []rollout.Slot{{Node: "a", Since: fraction}}, Failures: []rollout.Failure{{Node: "b", Since: fraction}},
		Waves: []rollout.WaveProgress{{Name: "first", Completed: fraction}, {Name: "rest"}}, Usual: 1600 * time.Millisecond})
	if status.UsualSeconds != 2 {
		t.Errorf("the usual 1.6s are stored as %ds, want 2s", status.UsualSeconds)
	}
	for _, got := range []metav1.Time{status.InFlight[0].Since, status.Failed[0].Since, *status.Waves[0].CompletedTime} {
		if !got.Time.Equal(fixture.Epoch) {
			t.Errorf("stored %s, want %s: the API server keeps whole seconds", got, fixture.Epoch)
		}
	}
}

func TestTheWaveOfARolloutWithoutWavesIsNotStored(t *testing.T) {
	status := topsv1.DaemonRolloutStatus{Waves: []topsv1.WaveStatus{{Name: "first"}, {Name: "rest"}}} // from a policy that had waves
	storeLedger(&status, rollout.Ledger{Revision: "r2", Waves: []rollout.WaveProgress{{Name: rollout.RestWave, Total: 3, Updated: 1, Completed: fixture.Epoch}}})
	if diff := cmp.Diff(topsv1.DaemonRolloutStatus{Revision: "r2"}, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestMessagesAreStoredUpToALength(t *testing.T) {
	var status topsv1.DaemonRolloutStatus
	storeLedger(&status, rollout.Ledger{Failures: []rollout.Failure{{Node: "a", Message: strings.Repeat("m", 2*maxMessage)}}})
	if got := status.Failed[0].Message; len(got) != maxMessage || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes of a message are stored, want %d", len(got), maxMessage)
	}
}
