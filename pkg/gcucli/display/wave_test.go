package display

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

func TestApprove(t *testing.T) {
	tests := []struct {
		name, wave, want, err string
		already               bool
		edit                  func(*fixture)
	}{
		{name: "the one that waits, beside older approvals", wave: "main", want: "bbb/main"},
		{name: "an approval for another revision is none", wave: "main", want: "bbb/main", edit: func(f *fixture) {
			f.Rollout.Annotations[topsv1.AnnotationApprovedWaves] = "ccc/main"
		}},
		{name: "those of the last known good revision, which a rollback may need, are kept", wave: "main", want: "good/main,bbb/canary,bbb/main", edit: func(f *fixture) {
			f.Rollout.Annotations[topsv1.AnnotationApprovedWaves] = "good/main,goods/main,bbb/canary"
			f.Rollout.Status.LastKnownGood = &topsv1.KnownGoodRevision{Revision: "good"}
		}},
		{name: "twice is once", wave: "main", want: " bbb/main ,x", already: true, edit: func(f *fixture) {
			f.Rollout.Annotations[topsv1.AnnotationApprovedWaves] = " bbb/main ,x"
		}},
		{name: "not one that needs none", wave: "canary", err: "wave canary does not wait for an approval, it is Complete; wave main waits"},
		{name: "not one that does not exist", wave: "second", err: `the rollout has no wave "second"; wave main waits`},
		{name: "not ahead, before the wave before is complete", wave: "main", err: "it is NotReached; no wave waits", edit: func(f *fixture) {
			f.Rollout.Status.Waves[0].CompletedTime, f.Rollout.Status.Waiting = nil, nil
		}},
		{name: "ahead, if a node of it waits for that already", wave: "main", want: "bbb/main", edit: func(f *fixture) {
			f.Rollout.Status.Waves[0].CompletedTime = nil
			f.Rollout.Status.Waiting = []topsv1.WaitingNote{{Reason: "AwaitingApproval", Nodes: 1, Message: "wave main awaits approval as bbb/main"}}
		}},
		{name: "not ahead, while the wave before soaks", wave: "main", err: "it is NotReached; no wave waits", edit: func(f *fixture) {
			f.Rollout.Status.Waves[0].CompletedTime, f.Rollout.Status.Waiting = ptr.To(metav1.NewTime(now.Add(-9*time.Minute))), nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "rolling")
			if tt.edit != nil {
				tt.edit(f)
			}
			got, err := Approve(f.Rollout, WavesOf(f.Rollout, f.Policy, nil, now), tt.wave)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != (Approval{"main", tt.want, tt.already}) {
				t.Errorf("got %+v, %v, want %q, %v", got, err, tt.want, tt.already)
			}
		})
	}
}

// A plan divides the waves: a batch is approved by its name, a wave by that of the wave.
func TestBatchesOfAPlanAreApprovedLikeWaves(t *testing.T) {
	plan := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan"}, Spec: topsv1.UpgradePlanSpec{Batches: []topsv1.PlannedBatch{
		{Name: "one"}, {Name: "two", Approval: topsv1.ApprovalManual}}}}
	policy := &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{{Name: "main", Approval: topsv1.ApprovalManual, SoakSeconds: 600}}}}
	done := ptr.To(metav1.NewTime(now.Add(-time.Minute)))
	two := func(part string) string { return rollout.BatchApproval(part, "plan=plan uid/2") }
	for _, tt := range []struct {
		name, wave, given, want string
		policy                  *topsv1.UpgradePolicy
		waves                   []topsv1.WaveStatus
		approved                string
	}{
		{"a batch", "two", "", "r/" + two("plan/two"), nil, []topsv1.WaveStatus{{Name: "plan/one", CompletedTime: done}, {Name: "plan/two"}, {Name: "plan/rest"}}, "plan/two"},
		{"a batch of a plan that was edited since", "two", "r/plan/two,r/" + rollout.BatchApproval("plan/two", "plan=plan uid/1"),
			"r/plan/two,r/" + rollout.BatchApproval("plan/two", "plan=plan uid/1") + ",r/" + two("plan/two"), nil,
			[]topsv1.WaveStatus{{Name: "plan/one", CompletedTime: done}, {Name: "plan/two"}, {Name: "plan/rest"}}, "plan/two"},
		{"a batch that waits in a later wave", "two", "r/" + two("main/plan/two"), "r/" + two("main/plan/two") + ",r/" + two("rest/plan/two"), nil,
			[]topsv1.WaveStatus{{Name: "main/plan/two", CompletedTime: done}, {Name: "main/plan/rest", CompletedTime: done}, {Name: "rest/plan/two"}, {Name: "rest/plan/rest"}}, "rest/plan/two"},
		{"a wave with batches", "main", "", "r/main", policy, []topsv1.WaveStatus{{Name: "main/plan/one"}, {Name: "main/plan/two"}, {Name: "main/plan/rest"}}, "main"},
		{"a batch of an approved wave, before the soak", "two", "r/main", "r/main,r/" + two("main/plan/two"), policy,
			[]topsv1.WaveStatus{{Name: "main/plan/one", CompletedTime: done}, {Name: "main/plan/two"}, {Name: "main/plan/rest"}}, "main/plan/two"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dro := &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{Revision: "r", LimitedTo: "plan=plan uid/2", Waves: tt.waves}}
			dro.Annotations = map[string]string{topsv1.AnnotationApprovedWaves: tt.given}
			got, err := Approve(dro, WavesOf(dro, tt.policy, plan, now), tt.wave)
			if err != nil || got != (Approval{tt.approved, tt.want, false}) {
				t.Errorf("approved is %+v, %v; want %s with %q", got, err, tt.approved, tt.want)
			}
		})
	}
	// Who names a batch does not approve the whole wave that is before it, which waits too.
	for _, batch := range []string{"one", "two", "main/plan/two"} {
		dro := &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{Revision: "r", LimitedTo: "plan=plan uid/2",
			Waves: []topsv1.WaveStatus{{Name: "main/plan/two"}, {Name: "main/plan/one"}, {Name: "main/plan/rest"}}}}
		if batch == "one" {
			slices.Reverse(dro.Status.Waves[:2])
		}
		waves := WavesOf(dro, policy, plan, now)
		if got, err := Approve(dro, waves, batch); err == nil || !strings.Contains(err.Error(), "waits for the approval of wave main: approve that first") {
			t.Errorf("batch %s: approved is %+v, %v", batch, got, err)
		}
		if waves[0].Awaits != "main" || waves[1].Awaits != "" && waves[1].State == WaveAwaitsApproval {
			t.Errorf("what waits is %+v", waves)
		}
	}
}

// A plan with the name of a wave: its manual batch can be approved.
func TestAPlanMayHaveTheNameOfAWave(t *testing.T) {
	for _, name := range []string{"plan", "main", "rest"} {
		plan := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.UpgradePlanSpec{Batches: []topsv1.PlannedBatch{{Name: "one", Approval: topsv1.ApprovalManual}}}}
		policy := &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{{Name: "main", Approval: topsv1.ApprovalManual}}}}
		wave := "main"
		if name == "rest" {
			wave = "rest"
		}
		dro := &topsv1.DaemonRollout{}
		dro.Status.Revision, dro.Status.LimitedTo = "r2", "plan="+name+" uid/1"
		dro.Status.Waves = []topsv1.WaveStatus{{Name: wave + "/" + name + "/one", Total: 1}, {Name: wave + "/" + name + "/rest"}}
		waves := WavesOf(dro, policy, plan, time.Now())
		if waves[0].State != WaveAwaitsApproval || !waves[0].Manual {
			_, err := Approve(dro, waves, "one")
			t.Errorf("plan %s: its batch is shown as %s; approve says: %v", name, waves[0].State, err)
		}
	}
}

// Under OTA no batch waits for an approval.
func TestUnderOTANoBatchAwaitsAnApproval(t *testing.T) {
	plan := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan", UID: "uid", Generation: 1}, Spec: topsv1.UpgradePlanSpec{Batches: []topsv1.PlannedBatch{{Name: "one", Approval: topsv1.ApprovalManual}}}}
	dro := &topsv1.DaemonRollout{}
	dro.Status.Strategy, dro.Status.Revision, dro.Status.LimitedTo = "OTA", "r2", "plan=plan uid/1"
	dro.Status.Waves = []topsv1.WaveStatus{{Name: "plan/one", Total: 100}}
	if w := WavesOf(dro, nil, plan, time.Now()); w[0].State == WaveAwaitsApproval {
		t.Errorf("shown as %s", w[0].State)
	}
}

// Messages name a batch with the version of its plan, which guards against one that was edited since.
func TestABatchIsApprovedByItsNameWithAVersion(t *testing.T) {
	plan := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan", UID: "uid", Generation: 1}, Spec: topsv1.UpgradePlanSpec{Batches: []topsv1.PlannedBatch{{Name: "one", Approval: topsv1.ApprovalManual}}}}
	dro := &topsv1.DaemonRollout{}
	dro.Status.Revision, dro.Status.LimitedTo = "r2", "plan=plan uid/1"
	dro.Status.Waves = []topsv1.WaveStatus{{Name: "plan/one", Total: 100}}
	if _, err := Approve(dro, WavesOf(dro, nil, plan, time.Now()), rollout.BatchApproval("plan/one", "plan=plan uid/1")); err != nil {
		t.Error(err)
	}
	if _, err := Approve(dro, WavesOf(dro, nil, plan, time.Now()), rollout.BatchApproval("plan/one", "plan=plan uid/2")); err == nil {
		t.Error("another version of the plan is approved")
	}
}
