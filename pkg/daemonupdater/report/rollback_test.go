package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// halted returns the input of a group at r2 on which two nodes failed.
func halted() rollout.Input {
	return change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash), fixture.Planned("c", fixture.OldHash)), failedNodes("a", "b"))
}

// haltedGroup returns the DaemonSet driver at r2 under failure.action Rollback, with r1 as its
// last known good revision.
func haltedGroup() *world {
	ds := fixture.DaemonSet("driver")
	o := worldOf([]memberAndPods{memberWith(ds)})
	o.Policy = fixture.PolicyOnFailure(topsv1.FailureRollback)
	o.Rollout.Status.Revision = "r2"
	o.Rollout.Status.LastKnownGood = fixture.GoodAt("r1", fixture.OldHash)
	return o
}

// specs turns the group into that of a gr, with one DaemonSet from each of these revisions.
func (o *world) specs(revisions ...string) {
	o.Members = nil
	for _, name := range revisions {
		ds := fixture.OfGcuResource(fixture.DaemonSet("set" + name))
		if name != "" {
			fixture.Annotate(ds, topsv1.AnnotationRevision, name)
		}
		o.Members = append(o.Members, observed.Member{DaemonSet: ds})
	}
	o.Group = observed.GroupOf(o.Members[0].DaemonSet)
}

func TestRollbackOf(t *testing.T) {
	tests := []struct {
		name     string
		change   func(*world, *rollout.Input)
		gone     bool
		to       string
		hindered string
	}{
		{name: "goes back when halted and the policy says so", to: "r1"},
		{name: "not when nothing failed", change: func(_ *world, in *rollout.Input) { in.Ledger.Failures = nil }},
		{name: "not without a policy", change: func(o *world, _ *rollout.Input) { o.Policy = nil }},
		{name: "not when the policy says Halt", change: func(o *world, _ *rollout.Input) { o.Policy = fixture.PolicyOnFailure(topsv1.FailureHalt) }},
		{name: "not when the policy says nothing about failures", change: func(o *world, _ *rollout.Input) { o.Policy.Spec.Failure = nil }},
		{name: "not while blocked", change: func(_ *world, in *rollout.Input) { blockedInput("InvalidPaused")(in) }},
		{name: "not while paused", change: func(_ *world, in *rollout.Input) { in.Settings.Paused = true }, hindered: "not rolled back while the rollout is paused"},
		{name: "not when nothing is known to be good", change: func(o *world, _ *rollout.Input) { o.Rollout.Status.LastKnownGood = nil },
			hindered: "not rolled back: no earlier revision is known to be good"},
		{name: "not when the good revision itself fails", change: func(o *world, _ *rollout.Input) { o.Rollout.Status.LastKnownGood.Revision = "r2" },
			hindered: "not rolled back: this is the last known good revision"},
		{name: "not when the good spec, rendered anew, fails", change: func(o *world, _ *rollout.Input) {
			o.specs("fleet-1", "fleet-1")
			o.Rollout.Status.LastKnownGood.GcuResourceRevision = "fleet-1"
		}, hindered: "not rolled back: this is the last known good revision"},
		{name: "not while only some DaemonSets come from the good spec", change: func(o *world, _ *rollout.Input) {
			o.specs("fleet-1", "fleet-2")
			o.Rollout.Status.LastKnownGood.GcuResourceRevision = "fleet-1"
		}, hindered: "not rolled back until all DaemonSets are rendered from the same spec"},
		{name: "when a DaemonSet leaves since an earlier spec", change: func(o *world, _ *rollout.Input) {
			o.specs("fleet-1", "fleet-2")
			o.Members[0].DaemonSet.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
			o.Rollout.Status.LastKnownGood.GcuResourceRevision = "fleet-1"
		}, to: "r1"},
		{name: "not for two nodes when three must have failed", change: func(o *world, _ *rollout.Input) { o.Policy.Spec.Failure.MinFailedNodes = 3 },
			hindered: "not rolled back: that requires 3 failed nodes (failure.minFailedNodes of the policy)"},
		{name: "not by default for two nodes", change: func(o *world, _ *rollout.Input) { o.Policy.Spec.Failure.MinFailedNodes = 0 },
			hindered: "not rolled back: that requires 3 failed nodes (failure.minFailedNodes of the policy)"},
		{name: "not for two nodes because the threshold is two, or the budget", change: func(o *world, in *rollout.Input) {
			in.Settings.MaxUnavailable, in.Policy.Threshold = intstr.FromInt32(2), ptr.To(intstr.FromInt32(2))
			o.Policy.Spec.Failure.MinFailedNodes, o.Policy.Spec.Failure.Threshold = 0, in.Policy.Threshold
		}, hindered: "not rolled back: that requires 3 failed nodes (failure.minFailedNodes of the policy)"},
		{name: "by default for three nodes", change: func(o *world, in *rollout.Input) {
			o.Policy.Spec.Failure.MinFailedNodes = 0
			*in = change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash),
				fixture.PlannedBroken("c", fixture.NewHash), fixture.Planned("d", fixture.OldHash)), failedNodes("a", "b", "c"))
		}, to: "r1"},
		{name: "for two nodes that are the whole group", change: func(o *world, in *rollout.Input) {
			o.Policy.Spec.Failure.MinFailedNodes = 3
			*in = change(inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash)), failedNodes("a", "b"))
		}, to: "r1"},
		{name: "not when what failed is part of the good revision", change: func(_ *world, in *rollout.Input) {
			for i := range in.Ledger.Failures {
				in.Ledger.Failures[i].Targets = []rollout.Target{{Member: "kube-system/driver", Revision: fixture.OldHash}}
			}
			in.Members[0].Target = fixture.OldHash
		}, hindered: "not rolled back: nodes failed by versions that are part of old, the last known good revision, as well"},
		{name: "when what failed may be something else", change: func(_ *world, in *rollout.Input) {
			for i := range in.Ledger.Failures {
				in.Ledger.Failures[i].Targets = []rollout.Target{{Member: "kube-system/driver", Revision: fixture.NewHash}}
			}
		}, to: "r1"},
		{name: "not to a revision from before the floor", change: func(o *world, _ *rollout.Input) {
			o.Rollout.Status.LastKnownGood.Since, o.Policy.Spec.Failure.RollbackNotBefore = fixture.Ago(2*time.Hour), ptr.To(fixture.Ago(time.Hour))
		}, hindered: "not rolled back: old, the last known good revision, is older than failure.rollbackNotBefore of the policy"},
		{name: "to a revision from after the floor", change: func(o *world, _ *rollout.Input) {
			o.Rollout.Status.LastKnownGood.Since, o.Policy.Spec.Failure.RollbackNotBefore = fixture.Ago(time.Minute), ptr.To(fixture.Ago(time.Hour))
		}, to: "r1"},
		{name: "not when the ControllerRevision is gone", gone: true,
			hindered: "not rolled back: old, the last known good revision, is no longer stored"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, in := haltedGroup(), halted()
			if tt.change != nil {
				tt.change(o, &in)
			}
			rb := RollbackOf(o.State, in, rollout.Plan(in), !tt.gone)
			if to := rb.To; (to == nil && tt.to != "") || (to != nil && to.Revision != tt.to) || rb.blockedBy != tt.hindered {
				t.Errorf("got %+v", rb)
			}
		})
	}
}

func TestAHaltReportsWhetherItIsRolledBack(t *testing.T) {
	for want, rb := range map[string]Rollback{
		"2 failed":                                              {},
		"2 failed; rolling back to old":                         {To: fixture.GoodAt("r1", fixture.OldHash)},
		"2 failed; rolling back to fleet-1":                     {To: &topsv1.KnownGoodRevision{Revision: "r1", GcuResourceRevision: "fleet-1"}},
		"2 failed; not rolled back while the rollout is paused": {blockedBy: "not rolled back while the rollout is paused"},
	} {
		if got := rb.Explain("2 failed"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStoredRevisionLooksForTheDaemonSetsOwnRevisions(t *testing.T) {
	ds := fixture.DaemonSet("driver")
	good := fixture.GoodAt("r1", fixture.OldHash)
	foreign := fixture.RevisionsOf(ds, fixture.OldHash)
	foreign[0].OwnerReferences[0].UID = "another"
	for name, tt := range map[string]struct {
		member observed.Member
		want   bool
	}{
		"it is there":              {observed.Member{DaemonSet: ds, Revisions: fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash)}, true},
		"it is gone":               {observed.Member{DaemonSet: ds, Revisions: fixture.RevisionsOf(ds, fixture.NewHash)}, false},
		"it is another's":          {observed.Member{DaemonSet: ds, Revisions: foreign}, false},
		"the DaemonSet was not in": {observed.Member{DaemonSet: fixture.DaemonSet("toolkit")}, false},
	} {
		if got := StoredRevision(good, []observed.Member{tt.member}); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// finished is a change to an input whose last node finished that long ago.
func finished(ago time.Duration) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Ledger.LastProgress = in.Now.Add(-ago) }
}

// Contract 98.
func TestKnownGood(t *testing.T) {
	before := fixture.GoodAt("r1", fixture.OldHash)
	now := &topsv1.KnownGoodRevision{Revision: "r2", Since: fixture.Ago(0), Targets: []topsv1.RevisionTarget{{DaemonSet: "kube-system/driver", Hash: fixture.NewHash}}}
	fromSpec := now.DeepCopy()
	fromSpec.GcuResourceRevision = "fleet-2"
	offlineAtTarget := fixture.PlannedOffline("a", fixture.NewHash)
	tests := []struct {
		name  string
		in    rollout.Input
		specs []string
		want  *topsv1.KnownGoodRevision
	}{
		{"complete", inputWith(fixture.Planned("a", fixture.NewHash)), nil, now},
		{"complete, but a node finished lately", change(inputWith(fixture.Planned("a", fixture.NewHash)), finished(119*time.Second)), nil, before},
		{"complete, and a node that finished some time ago may still fail", change(inputWith(fixture.Planned("a", fixture.NewHash)), finished(10*time.Minute-time.Second)), nil, before},
		{"complete, and a node finished long ago", change(inputWith(fixture.Planned("a", fixture.NewHash)), finished(10*time.Minute)), nil, now},
		{"complete where it can be", inputWith(fixture.Planned("a", fixture.NewHash), fixture.PlannedOffline("b", fixture.OldHash)), nil, now},
		{"an empty fleet shows nothing", inputWith(), nil, before},
		{"a fleet that is offline shows nothing", inputWith(offlineAtTarget, fixture.PlannedOffline("b", fixture.OldHash)), nil, before},
		{"a node is pending", inputWith(fixture.Planned("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash)), nil, before},
		{"a node is unavailable", inputWith(fixture.Planned("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash)), nil, before},
		{"a node is in flight", change(inputWith(fixture.Planned("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash)), holding("b")), nil, before},
		{"a node failed", change(inputWith(fixture.Planned("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash)), failedNodes("b")), nil, before},
		{"blocked", change(inputWith(fixture.Planned("a", fixture.NewHash)), blockedInput("RevisionPending")), nil, before},
		{"the spec a gr's DaemonSets come from", inputWith(fixture.Planned("a", fixture.NewHash)), []string{"fleet-2", "fleet-2"}, fromSpec},
		{"they come from different specs", inputWith(fixture.Planned("a", fixture.NewHash)), []string{"fleet-2", "fleet-1"}, before},
		{"one does not say", inputWith(fixture.Planned("a", fixture.NewHash)), []string{"", "fleet-2"}, before},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := haltedGroup()
			if tt.specs != nil {
				o.specs(tt.specs...)
			}
			d := rollout.Plan(tt.in)
			got := knownGood(before, o.State, tt.in, runs(tt.in, d) && isGood(before, tt.in, d))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("last known good (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the first one", func(t *testing.T) {
		for ago, want := range map[time.Duration]bool{119 * time.Second: false, 2 * time.Minute: true} {
			in := change(inputWith(fixture.Planned("a", fixture.NewHash)), finished(ago))
			if d := rollout.Plan(in); isGood(nil, in, d) != want || d.Recheck == 0 {
				t.Errorf("good %t %s after a node finished, decides again after %s", !want, ago, d.Recheck)
			}
		}
	})
	t.Run("keeps since when", func(t *testing.T) {
		in := inputWith(fixture.Planned("a", fixture.NewHash))
		in.Now = fixture.Epoch.Add(time.Hour)
		if diff := cmp.Diff(now, knownGood(now, haltedGroup().State, in, true)); diff != "" {
			t.Errorf("last known good a while later (-want +got):\n%s", diff)
		}
	})
}

// remembered returns the status after a pass over a group, and stores it.
func (o *world) remembered(in rollout.Input, kept bool) *topsv1.DaemonRolloutStatus {
	in.Ledger = observed.Ledger(&o.Rollout.Status, in.Now)
	d := rollout.Plan(in)
	rb := RollbackOf(o.State, in, d, kept)
	d.Halted = rb.Explain(d.Halted)
	status := Status(o.Rollout.Status, 7, in, d)
	rb.Remember(&status, o.State, in, d)
	o.Rollout.Status = *status.DeepCopy()
	return &status
}

func (o *world) failed(names ...string) {
	storeLedger(&o.Rollout.Status, change(inputWith(), failedNodes(names...)).Ledger)
}

// TestARollbackFromBeginningToEnd walks through the stored statuses.
func TestARollbackFromBeginningToEnd(t *testing.T) {
	o := haltedGroup()
	o.failed("a", "b")
	bad := inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.PlannedBroken("b", fixture.NewHash), fixture.Planned("c", fixture.OldHash))
	begun := o.remembered(bad, true)
	want := &topsv1.RolloutRollback{From: "r2", To: "r1", Time: fixture.Ago(0),
		Message: "back to old, the last known good revision: 2 of 2 started nodes failed (a, b); a: it crash-loops"}
	if diff := cmp.Diff(want, begun.Rollback); diff != "" {
		t.Fatalf("the intent (-want +got):\n%s", diff)
	}
	bad.Now = fixture.Epoch.Add(time.Minute)
	if diff := cmp.Diff(begun, o.remembered(bad, true)); diff != "" {
		t.Errorf("deciding again before anything was changed back (-before +after):\n%s", diff)
	}
	if got := o.remembered(change(bad, blockedInput("RevisionPending")), true); got.Rollback == nil {
		t.Error("the rollback is forgotten while the DaemonSet controller observes the template")
	}

	back := inputWith(fixture.PlannedBroken("a", fixture.NewHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash))
	back.Revision, back.Members[0].Target = "r1", fixture.OldHash
	got := o.remembered(back, true)
	if w := fixture.Words(*got); w["Progressing"] != "True/RollingBack" || got.Rollback.RestoredTime == nil || got.Rollback.CompletedTime != nil || got.LastKnownGood.Revision != "r1" {
		t.Errorf("on the way back: %v, %+v", w, got.Rollback)
	}
	back.Nodes[0] = fixture.Planned("a", fixture.OldHash)
	back.Now = fixture.Epoch.Add(2 * time.Minute)
	got = o.remembered(back, true)
	if w := fixture.Words(*got); w["Progressing"] != "False/Complete" || got.Rollback.CompletedTime == nil {
		t.Errorf("back: %v, %+v", w, got.Rollback)
	}
	done := got
	back.Now = fixture.Epoch.Add(3 * time.Minute)
	if diff := cmp.Diff(done, o.remembered(back, true)); diff != "" {
		t.Errorf("the status of a completed rollback changes by itself (-before +after):\n%s", diff)
	}

	again := inputWith(fixture.Planned("a", fixture.OldHash), fixture.Planned("b", fixture.OldHash), fixture.Planned("c", fixture.OldHash))
	if got := o.remembered(change(again, blockedInput(topsv1.ReasonRevisionRejected)), true); got.Rollback == nil || got.LastKnownGood.Revision != "r1" {
		t.Errorf("the bad version again is forgotten: %+v", got.Rollback)
	}
	again.Resume = "now"
	if got := o.remembered(again, true); got.Rollback != nil || got.LastKnownGood.Revision != "r1" {
		t.Errorf("the bad version is a new rollout once it is resumed: %+v", got.Rollback)
	}
	o.failed("a", "b")
	o.Rollout.Status.Resumed = "now"
	bad.Now, bad.Resume = fixture.Epoch.Add(time.Hour), "now"
	if got := o.remembered(bad, true); got.Rollback == nil || !got.Rollback.Time.Time.Equal(bad.Now) {
		t.Errorf("it is rolled back again: %+v", got.Rollback)
	}
}

func TestARollbackIsRememberedUntilAnotherRevisionComesOrItIsResumed(t *testing.T) {
	of := &topsv1.RolloutRollback{From: "r2", To: "r1", Time: fixture.Ago(time.Minute)}
	ofGr := of.DeepCopy()
	ofGr.RejectedRevision, ofGr.GcuResourceRevision = "fleet-2", "fleet-1"
	const in = "fleet-1 in place of fleet-2"
	tests := []struct {
		name           string
		present        string
		blocked        bool
		resumed        string
		specs          []string
		kept, arriving bool
	}{
		{"before anything was changed back", "r2", false, "", []string{"fleet-2", "fleet-2"}, true, false},
		{"while a target is not known", "", true, "", []string{"fleet-3", "fleet-3"}, true, false},
		{"while some DaemonSets are changed back", "mixed", false, "", []string{in, "fleet-2"}, true, false},
		{"at the good templates", "r1", false, "", []string{in, in}, true, true},
		{"at the good spec, rendered anew", "r9", false, "", []string{in, in}, true, true},
		{"while the bad one is there again", "r2", false, "", []string{"fleet-2", "fleet-2"}, true, false},
		{"not when the good one becomes the spec", "r1", false, "", []string{"fleet-1", "fleet-1"}, false, true},
		{"not at another revision", "r3", false, "", []string{"fleet-3", "fleet-3"}, false, false},
		{"not when it is resumed", "r1", false, "now", []string{in, in}, false, true},
		{"when it is resumed while a target is not known", "", true, "", []string{"fleet-3", "fleet-3"}, true, false},
		{"at the good template of a DaemonSet", "r1", false, "", nil, true, true},
		{"at the bad template of a DaemonSet", "r2", false, "", nil, true, false},
		{"not at another template of a DaemonSet", "r3", false, "", nil, false, false},
		{"not when that of a DaemonSet is resumed", "r2", false, "now", nil, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := haltedGroup()
			o.Rollout.Status.Rollback = of
			if tt.specs != nil {
				o.specs(tt.specs...)
				o.Rollout.Status.Rollback = ofGr
				for _, m := range o.Members {
					if m.DaemonSet.Annotations[topsv1.AnnotationRevision] == in {
						fixture.Annotate(m.DaemonSet, topsv1.AnnotationRevision, "fleet-1")
						fixture.Annotate(m.DaemonSet, topsv1.AnnotationRejectedRevision, "fleet-2")
					}
				}
			}
			in := rollout.Input{Revision: tt.present, Resume: tt.resumed}
			if tt.blocked {
				blockedInput("RevisionPending")(&in)
			}
			stored := o.Rollout.Status.Rollback
			if got := keptRollback(&o.Rollout.Status, o.State, in, rollout.Plan(in)); (got != nil) != tt.kept {
				t.Errorf("remembered %+v, want %v", got, tt.kept)
			}
			if got := isAtRollbackTarget(stored, o.State, in); got != tt.arriving {
				t.Errorf("arriving %v, want %v", got, tt.arriving)
			}
		})
	}
}

func TestNoticesOfARollback(t *testing.T) {
	begun := &topsv1.RolloutRollback{From: "r2", To: "r1", Message: "because", Time: fixture.Ago(time.Hour)}
	done := begun.DeepCopy()
	done.CompletedTime = &metav1.Time{Time: fixture.Epoch}
	again := begun.DeepCopy()
	again.Time = fixture.Ago(0)
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
			for _, n := range Events(before, after) {
				got = append(got, n.Type+" "+n.Reason+": "+n.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	under := standing("RollingBack")
	if c := meta.FindStatusCondition(under.Conditions, topsv1.RolloutProgressing); !meta.IsStatusConditionFalse(under.Conditions, c.Type) || len(Events(standing("Halted"), under)) != 0 {
		t.Error("that nodes are in flight is told, though the start of the rollback was")
	}
}

func TestUndoPatch(t *testing.T) {
	ds := fixture.DaemonSet("driver")
	ds.ResourceVersion = "7"
	r := fixture.RevisionsOf(ds, fixture.OldHash)[0]
	r.Data.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[]}},"other":1},"more":2}`)
	got, err := TemplatePatch(ds, r)
	want := `{"metadata":{"resourceVersion":"7","uid":"uid-driver"},"spec":{"template":{"$patch":"replace","spec":{"containers":[]}}}}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	for _, data := range []string{"", "[]", "{}"} {
		r.Data.Raw = []byte(data)
		if got, err := TemplatePatch(ds, r); err == nil {
			t.Errorf("data %q gives %s", data, got)
		}
	}
}
