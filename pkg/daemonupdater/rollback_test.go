package daemonupdater

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

func policyOnFailure(action topsv1.FailureAction) *topsv1.UpgradePolicy {
	return &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "careful"},
		Spec: topsv1.UpgradePolicySpec{Failure: &topsv1.FailurePolicy{Action: action}}}
}

// goodAt is a last known good revision of the DaemonSet driver.
func goodAt(revision, hash string) *topsv1.KnownGoodRevision {
	return &topsv1.KnownGoodRevision{Revision: revision, Since: ago(time.Hour),
		Targets: []topsv1.RevisionTarget{{DaemonSet: "kube-system/driver", Hash: hash}}}
}

// halted is the input of a group at r2 on which two nodes failed.
func halted() rollout.Input {
	return change(inputWith(plannedBroken("a", newHash), plannedBroken("b", newHash), planned("c", oldHash)), failedNodes("a", "b"))
}

// haltedGroup is the DaemonSet driver at r2 under failure.action Rollback, with
// r1 as its last known good revision.
func haltedGroup() *observation {
	ds := daemonSet("driver")
	o := observed([]memberAndPods{memberWith(ds)})
	o.policy = policyOnFailure(topsv1.FailureRollback)
	o.rollout.Status.Revision = "r2"
	o.rollout.Status.LastKnownGood = goodAt("r1", oldHash)
	return o
}

// specs makes the group that of a gr, with one DaemonSet from each of these revisions.
func (o *observation) specs(revisions ...string) {
	o.members = nil
	for _, name := range revisions {
		ds := ofGcuResource(daemonSet("set" + name))
		if name != "" {
			annotate(ds, topsv1.AnnotationRevision, name)
		}
		o.members = append(o.members, member{daemonSet: ds})
	}
	o.group = groupOf(o.members[0].daemonSet)
}

func TestRollbackOf(t *testing.T) {
	tests := []struct {
		name     string
		change   func(*observation, *rollout.Input)
		gone     bool
		to       string
		hindered string
	}{
		{name: "goes back when halted and the policy says so", to: "r1"},
		{name: "not when nothing failed", change: func(_ *observation, in *rollout.Input) { in.Ledger.Failures = nil }},
		{name: "not without a policy", change: func(o *observation, _ *rollout.Input) { o.policy = nil }},
		{name: "not when the policy says Halt", change: func(o *observation, _ *rollout.Input) { o.policy = policyOnFailure(topsv1.FailureHalt) }},
		{name: "not when the policy says nothing about failures", change: func(o *observation, _ *rollout.Input) { o.policy.Spec.Failure = nil }},
		{name: "not while blocked", change: func(_ *observation, in *rollout.Input) { blockedInput("InvalidPaused")(in) }},
		{name: "not while paused", change: func(_ *observation, in *rollout.Input) { in.Settings.Paused = true }, hindered: "not rolled back while paused"},
		{name: "not when nothing is known to be good", change: func(o *observation, _ *rollout.Input) { o.rollout.Status.LastKnownGood = nil },
			hindered: "not rolled back: no earlier revision is known to be good"},
		{name: "not when the good revision itself fails", change: func(o *observation, _ *rollout.Input) { o.rollout.Status.LastKnownGood.Revision = "r2" },
			hindered: "not rolled back: this is the last known good revision"},
		{name: "not when the good spec, rendered anew, fails", change: func(o *observation, _ *rollout.Input) {
			o.specs("fleet-1", "fleet-1")
			o.rollout.Status.LastKnownGood.GcuResourceRevision = "fleet-1"
		}, hindered: "not rolled back: this is the last known good revision"},
		{name: "when only some DaemonSets come from the good spec", change: func(o *observation, _ *rollout.Input) {
			o.specs("fleet-1", "fleet-2")
			o.rollout.Status.LastKnownGood.GcuResourceRevision = "fleet-1"
		}, to: "r1"},
		{name: "not when the ControllerRevision is gone", gone: true,
			hindered: "not rolled back: old, the last known good revision, is not kept any more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, in := haltedGroup(), halted()
			if tt.change != nil {
				tt.change(o, &in)
			}
			rb := rollbackOf(o, in, rollout.Plan(in), !tt.gone)
			if to := rb.to; (to == nil && tt.to != "") || (to != nil && to.Revision != tt.to) || rb.hindered != tt.hindered {
				t.Errorf("got %+v", rb)
			}
		})
	}
}

func TestAHaltSaysWhatBecomesOfIt(t *testing.T) {
	for want, rb := range map[string]rollback{
		"2 failed":                               {},
		"2 failed; rolling back to old":          {to: goodAt("r1", oldHash)},
		"2 failed; rolling back to fleet-1":      {to: &topsv1.KnownGoodRevision{Revision: "r1", GcuResourceRevision: "fleet-1"}},
		"2 failed; not rolled back while paused": {hindered: "not rolled back while paused"},
	} {
		if got := rb.explain("2 failed"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestKeptInLooksForTheDaemonSetsOwnRevisions(t *testing.T) {
	ds := daemonSet("driver")
	good := goodAt("r1", oldHash)
	foreign := revisionsOf(ds, oldHash)
	foreign[0].OwnerReferences[0].UID = "another"
	for name, tt := range map[string]struct {
		member member
		want   bool
	}{
		"it is there":              {member{daemonSet: ds, revisions: revisionsOf(ds, oldHash, newHash)}, true},
		"it is gone":               {member{daemonSet: ds, revisions: revisionsOf(ds, newHash)}, false},
		"it is another's":          {member{daemonSet: ds, revisions: foreign}, false},
		"the DaemonSet was not in": {member{daemonSet: daemonSet("toolkit")}, false},
	} {
		if got := keptIn(good, []member{tt.member}); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKnownGood(t *testing.T) {
	before := goodAt("r1", oldHash)
	now := &topsv1.KnownGoodRevision{Revision: "r2", Since: ago(0), Targets: []topsv1.RevisionTarget{{DaemonSet: "kube-system/driver", Hash: newHash}}}
	fromSpec := now.DeepCopy()
	fromSpec.GcuResourceRevision = "fleet-2"
	offlineAtTarget := plannedOffline("a", newHash)
	tests := []struct {
		name  string
		in    rollout.Input
		specs []string
		want  *topsv1.KnownGoodRevision
	}{
		{"complete", inputWith(planned("a", newHash)), nil, now},
		{"complete where it can be", inputWith(planned("a", newHash), plannedOffline("b", oldHash)), nil, now},
		{"an empty fleet shows nothing", inputWith(), nil, before},
		{"a fleet that is offline shows nothing", inputWith(offlineAtTarget, plannedOffline("b", oldHash)), nil, before},
		{"a node is pending", inputWith(planned("a", newHash), planned("b", oldHash)), nil, before},
		{"a node is unavailable", inputWith(planned("a", newHash), plannedBroken("b", newHash)), nil, before},
		{"a node is in flight", change(inputWith(planned("a", newHash), plannedBroken("b", newHash)), holding("b")), nil, before},
		{"a node failed", change(inputWith(planned("a", newHash), plannedBroken("b", newHash)), failedNodes("b")), nil, before},
		{"blocked", change(inputWith(planned("a", newHash)), blockedInput("RevisionPending")), nil, before},
		{"the spec a gr's DaemonSets come from", inputWith(planned("a", newHash)), []string{"fleet-2", "fleet-2"}, fromSpec},
		{"they come from different specs", inputWith(planned("a", newHash)), []string{"fleet-2", "fleet-1"}, before},
		{"one does not say", inputWith(planned("a", newHash)), []string{"", "fleet-2"}, before},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := haltedGroup()
			if tt.specs != nil {
				o.specs(tt.specs...)
			}
			got := knownGood(before, o, tt.in, isGood(tt.in, rollout.Plan(tt.in)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("last known good (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("keeps since when", func(t *testing.T) {
		in := inputWith(planned("a", newHash))
		in.Now = epoch.Add(time.Hour)
		if diff := cmp.Diff(now, knownGood(now, haltedGroup(), in, true)); diff != "" {
			t.Errorf("last known good a while later (-want +got):\n%s", diff)
		}
	})
}

// remembered is the status after a pass over a group, and makes it the stored one.
func (o *observation) remembered(in rollout.Input, kept bool) *topsv1.DaemonRolloutStatus {
	in.Ledger = ledgerOf(&o.rollout.Status)
	d := rollout.Plan(in)
	rb := rollbackOf(o, in, d, kept)
	d.Halted = rb.explain(d.Halted)
	status := statusOf(o.rollout.Status, 7, in, d)
	rb.remember(&status, o, in, d)
	o.rollout.Status = *status.DeepCopy()
	return &status
}

func (o *observation) failed(names ...string) {
	storeLedger(&o.rollout.Status, change(inputWith(), failedNodes(names...)).Ledger)
}

// TestARollbackFromBeginningToEnd walks through the stored statuses.
func TestARollbackFromBeginningToEnd(t *testing.T) {
	o := haltedGroup()
	o.failed("a", "b")
	bad := inputWith(plannedBroken("a", newHash), plannedBroken("b", newHash), planned("c", oldHash))
	begun := o.remembered(bad, true)
	want := &topsv1.RolloutRollback{From: "r2", To: "r1", Time: ago(0),
		Message: "back to old, the last known good revision: 2 of 2 started nodes failed (a, b); a: it crash-loops"}
	if diff := cmp.Diff(want, begun.Rollback); diff != "" {
		t.Fatalf("the intent (-want +got):\n%s", diff)
	}
	bad.Now = epoch.Add(time.Minute)
	if diff := cmp.Diff(begun, o.remembered(bad, true)); diff != "" {
		t.Errorf("deciding again before anything was changed back (-before +after):\n%s", diff)
	}
	if got := o.remembered(change(bad, blockedInput("RevisionPending")), true); got.Rollback == nil {
		t.Error("the rollback is forgotten while the DaemonSet controller observes the template")
	}

	back := inputWith(plannedBroken("a", newHash), planned("b", oldHash), planned("c", oldHash))
	back.Revision, back.Members[0].Target = "r1", oldHash
	got := o.remembered(back, true)
	if w := words(*got); w["Progressing"] != "True/RollingBack" || got.Rollback.CompletedTime != nil || got.LastKnownGood.Revision != "r1" {
		t.Errorf("on the way back: %v, %+v", w, got.Rollback)
	}
	back.Nodes[0] = planned("a", oldHash)
	back.Now = epoch.Add(2 * time.Minute)
	got = o.remembered(back, true)
	if w := words(*got); w["Progressing"] != "False/Complete" || got.Rollback.CompletedTime == nil {
		t.Errorf("back: %v, %+v", w, got.Rollback)
	}
	done := got
	back.Now = epoch.Add(3 * time.Minute)
	if diff := cmp.Diff(done, o.remembered(back, true)); diff != "" {
		t.Errorf("the status of a completed rollback changes by itself (-before +after):\n%s", diff)
	}

	again := inputWith(planned("a", oldHash), planned("b", oldHash), planned("c", oldHash))
	if got := o.remembered(again, true); got.Rollback != nil || got.LastKnownGood.Revision != "r1" {
		t.Errorf("the bad version again is a new rollout: %+v", got.Rollback)
	}
	o.failed("a", "b")
	bad.Now = epoch.Add(time.Hour)
	if got := o.remembered(bad, true); got.Rollback == nil || !got.Rollback.Time.Time.Equal(bad.Now) {
		t.Errorf("it is rolled back again: %+v", got.Rollback)
	}
}

func TestARollbackIsRememberedUntilAnotherRevisionComes(t *testing.T) {
	stored := &topsv1.RolloutRollback{From: "r2", To: "r1", GcuResourceRevision: "fleet-1", Time: ago(time.Minute)}
	tests := []struct {
		name            string
		before, present string
		blocked         bool
		specs           []string
		kept, arriving  bool
	}{
		{"before anything was changed back", "r2", "r2", false, []string{"fleet-2", "fleet-2"}, true, false},
		{"while a target is not known", "r2", "", true, []string{"fleet-3", "fleet-3"}, true, false},
		{"while some DaemonSets are changed back", "r2", "mixed", false, []string{"fleet-1", "fleet-2"}, true, false},
		{"at the good templates", "r2", "r1", false, []string{"fleet-1", "fleet-1"}, true, true},
		{"at the good spec, rendered anew", "r2", "r9", false, []string{"fleet-1", "fleet-1"}, true, true},
		{"not when the bad one comes again", "r1", "r2", false, []string{"fleet-2", "fleet-2"}, false, false},
		{"not when the bad one is half there again", "r1", "r2", false, []string{"fleet-2", "fleet-1"}, false, false},
		{"not at another revision", "r1", "r3", false, []string{"fleet-3", "fleet-3"}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := haltedGroup()
			o.specs(tt.specs...)
			in := rollout.Input{Revision: tt.present}
			if tt.blocked {
				blockedInput("RevisionPending")(&in)
			}
			before := &topsv1.DaemonRolloutStatus{Revision: tt.before, Rollback: stored}
			if got := followed(before, o, in); (got != nil) != tt.kept {
				t.Errorf("remembered %+v, want %v", got, tt.kept)
			}
			if got := arriving(stored, o, in); got != tt.arriving {
				t.Errorf("arriving %v, want %v", got, tt.arriving)
			}
		})
	}
}

func TestARollbackIsStoredBeforeAnythingElse(t *testing.T) {
	for name, change := range map[string]func(*topsv1.DaemonRolloutStatus){
		"a rollback":                 func(s *topsv1.DaemonRolloutStatus) { s.Rollback = &topsv1.RolloutRollback{To: "r1"} },
		"a last known good revision": func(s *topsv1.DaemonRolloutStatus) { s.LastKnownGood = goodAt("r1", oldHash) },
	} {
		var before, after topsv1.DaemonRolloutStatus
		change(&after)
		if !mustPrecede(&before, &after) || mustPrecede(&after, after.DeepCopy()) {
			t.Errorf("%s: stored before %v, again %v", name, mustPrecede(&before, &after), mustPrecede(&after, after.DeepCopy()))
		}
	}
}

func TestNoticesOfARollback(t *testing.T) {
	begun := &topsv1.RolloutRollback{From: "r2", To: "r1", Message: "because", Time: ago(time.Hour)}
	done := begun.DeepCopy()
	done.CompletedTime = &metav1.Time{Time: epoch}
	again := begun.DeepCopy()
	again.Time = ago(0)
	const start, end = "Warning RollingBack: because", "Normal RolledBack: every reachable node is back at revision r1"
	tests := []struct {
		name          string
		before, after *topsv1.RolloutRollback
		want          []string
	}{
		{"the start says why", nil, begun, []string{start}},
		{"nothing while it goes on", begun, begun, nil},
		{"the end", begun, done, []string{end}},
		{"nothing after the end", done, done, nil},
		{"nothing when it is forgotten", done, nil, nil},
		{"one of the same revisions", done, again, []string{start}},
		{"both at once", nil, done, []string{start, end}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := standing("Halted"), standing("Halted")
			before.Rollback, after.Rollback = tt.before, tt.after
			var got []string
			for _, n := range noticesOf(before, after) {
				got = append(got, n.kind+" "+n.reason+": "+n.message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	under := standing("RollingBack")
	if c := meta.FindStatusCondition(under.Conditions, topsv1.RolloutProgressing); !meta.IsStatusConditionFalse(under.Conditions, c.Type) || len(noticesOf(standing("Halted"), under)) != 0 {
		t.Error("that nodes are in flight is told, though the start of the rollback was")
	}
}
