package gcuresource

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// driverAt is a spec with a driver of one version.
func driverAt(version string) topsv1.GcuResourceSpec {
	return topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: version}}
}

// historyOf is the history of a gr at the last of versions, which were applied
// one after the other.
func historyOf(t *testing.T, versions ...string) (*topsv1.GcuResource, *history) {
	t.Helper()
	var list []appsv1.ControllerRevision
	var gr *topsv1.GcuResource
	for i, version := range versions {
		gr = newGR(driverAt(version))
		h, err := newHistory(gr, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := h.revision(gr, "kube-system")
		r.Revision = int64(i + 1)
		list = append(list, *r)
	}
	h, err := newHistory(gr, list)
	if err != nil {
		t.Fatal(err)
	}
	return gr, h
}

func nameAt(t *testing.T, version string) string {
	t.Helper()
	name, err := revisionOf(newGR(driverAt(version)))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestARevisionIsNamedByItsSpec(t *testing.T) {
	selector := func(keys ...string) topsv1.GcuResourceSpec {
		spec := driverAt("v1")
		spec.Driver.NodeSelector = map[string]string{}
		for _, k := range keys {
			spec.Driver.NodeSelector[k] = "x"
		}
		return spec
	}
	name := func(spec topsv1.GcuResourceSpec, change func(*topsv1.GcuResource)) string {
		gr := newGR(spec)
		change(gr)
		n, err := revisionOf(gr)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	same := func(*topsv1.GcuResource) {}
	base := name(selector("a", "b"), same)
	if got := name(selector("b", "a"), func(gr *topsv1.GcuResource) { gr.Generation, gr.Annotations = 9, nil }); got != base {
		t.Errorf("equal specs are named %s and %s", base, got)
	}
	if got := name(selector("a"), same); got == base {
		t.Error("different specs have the same name")
	}
	if len(base) != len("gpu-")+10 || base[:4] != "gpu-" {
		t.Errorf("name %q", base)
	}
}

func TestTheRevisionThatIsAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name, wish, want, reason string
		versions                 []string
	}{
		{"previous is the newest but the present one", "previous", "v2", "", []string{"v1", "v2", "v3"}},
		{"a revision by its name", "v1", "v1", "", []string{"v1", "v2", "v3"}},
		{"the present one by its name", "v3", "v3", "", []string{"v1", "v2", "v3"}},
		{"there is no previous one", "previous", "", ReasonNoPreviousRevision, []string{"v1"}},
		{"nothing has that name", "v9", "", ReasonUnknownRevision, []string{"v1", "v2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, h := historyOf(t, tc.versions...)
			wish := tc.wish
			if wish != topsv1.RollbackToPrevious {
				wish = nameAt(t, tc.wish)
			}
			got, failure := h.target(wish)
			if tc.reason != "" {
				if got != nil || failure == nil || failure.Reason != tc.reason || failure.Message == "" {
					t.Errorf("got %v, %+v, want %s", got, failure, tc.reason)
				}
				return
			}
			if failure != nil || got.Name != nameAt(t, tc.want) {
				t.Errorf("got %v, %+v, want %s", got, failure, tc.want)
			}
		})
	}
}

func TestWhatAnUnknownRevisionIsToldIsWhatThereIs(t *testing.T) {
	_, h := historyOf(t, "v1", "v2")
	_, failure := h.target("gpu-nonsense")
	want := `annotation topsops.enflame.com/rollback-to names revision "gpu-nonsense", which does not exist: set it to previous or to one of ` +
		nameAt(t, "v2") + ", " + nameAt(t, "v1") + ", or remove it"
	if failure.Message != want {
		t.Errorf("got  %s\nwant %s", failure.Message, want)
	}
}

func TestRevisionsOfOthersAreNotOurs(t *testing.T) {
	gr, h := historyOf(t, "v1", "v2")
	foreign := *h.revisions[0].DeepCopy()
	foreign.OwnerReferences[0].UID = "another"
	again, err := newHistory(gr, []appsv1.ControllerRevision{*h.revisions[1], foreign})
	if err != nil {
		t.Fatal(err)
	}
	if len(again.revisions) != 1 || again.isKept() || again.next() != 2 {
		t.Errorf("got %v, kept %v, next %d", again.names(), again.isKept(), again.next())
	}
	if !leftover(gr, &foreign) || leftover(gr, h.revisions[0]) {
		t.Error("what a gr of this name left behind is told by the UID of its owner")
	}
	foreign.OwnerReferences[0].Kind = "DaemonSet"
	if leftover(gr, &foreign) {
		t.Error("a revision of a DaemonSet was taken for one of a gr")
	}
}

func TestTheComponentsThatASpecChanges(t *testing.T) {
	named := func(name string) topsv1.GcuResourceSpec {
		return topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Name: name}, GFD: &topsv1.BaseFields{}}
	}
	with := func(version string, more ...func(*topsv1.GcuResourceSpec)) topsv1.GcuResourceSpec {
		spec := driverAt(version)
		for _, change := range more {
			change(&spec)
		}
		return spec
	}
	monitored := func(version string) func(*topsv1.GcuResourceSpec) {
		return func(s *topsv1.GcuResourceSpec) {
			s.Nightingale = &topsv1.NightingaleSpec{Redis: &topsv1.BaseFields{Version: version}}
		}
	}
	for _, tc := range []struct {
		name  string
		specs []topsv1.GcuResourceSpec
		want  []string
	}{
		{"the first spec changes nothing", []topsv1.GcuResourceSpec{driverAt("v1")}, nil},
		{"a version is another template", []topsv1.GcuResourceSpec{driverAt("v1"), driverAt("v2")}, []string{"driver"}},
		{"what is added has no pods to replace", []topsv1.GcuResourceSpec{driverAt("v1"), with("v1", monitored("v1"))}, nil},
		{"what is removed has none either", []topsv1.GcuResourceSpec{with("v1", monitored("v1")), driverAt("v1")}, nil},
		{"one part of a component is enough", []topsv1.GcuResourceSpec{with("v1", monitored("v1")), with("v1", monitored("v2"))}, []string{"nightingale"}},
		{"another name is another workload", []topsv1.GcuResourceSpec{named("a"), named("b")}, []string{"driver"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var list []appsv1.ControllerRevision
			var gr *topsv1.GcuResource
			for i, spec := range tc.specs {
				gr = newGR(spec)
				h, err := newHistory(gr, list)
				if err != nil {
					t.Fatal(err)
				}
				r := h.revision(gr, "kube-system")
				r.Revision = int64(i + 1)
				list = append(list, *r)
			}
			h, err := newHistory(gr, list)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.changed(gr)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestSurplusRevisions(t *testing.T) {
	var versions []string
	for i := 1; i <= maxRevisions+3; i++ {
		versions = append(versions, fmt.Sprintf("v%d", i))
	}
	for _, tc := range []struct {
		name      string
		versions  []string
		protected []string
		want      []string
	}{
		{"ten are kept", versions[:maxRevisions], nil, nil},
		{"the oldest beyond ten go", versions, nil, []string{"v3", "v2", "v1"}},
		{"one that somebody may go back to stays", versions, []string{"v2"}, []string{"v3", "v1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, h := historyOf(t, tc.versions...)
			var protected, want []string
			for _, v := range tc.protected {
				protected = append(protected, nameAt(t, v))
			}
			for _, v := range tc.want {
				want = append(want, nameAt(t, v))
			}
			surplus := &history{revisions: h.surplus(protected...)}
			if diff := cmp.Diff(want, surplus.names(), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the present one stays though it is not renumbered yet", func(t *testing.T) {
		_, h := historyOf(t, versions...)
		h.current = nameAt(t, "v1")
		for _, r := range h.surplus() {
			if r.Name == h.current {
				t.Error("the present revision is surplus")
			}
		}
	})
}

// restored is a gr whose driver runs on two nodes at an older template, after a
// spec was restored by annotation; its upgrade was under way.
func restored(t *testing.T) *Observation {
	t.Helper()
	gr := newGR(driverAt("v1"))
	gr.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
	gr.Annotations[topsv1.AnnotationRolledBackTo] = nameAt(t, "v1")
	gr.Status.Conditions = []topsv1.ActionCondition{
		{Action: "deploy", Type: "deploy", Status: "success", Reason: "success", Message: "success", Progress: 100},
		{Action: "upgrade", Type: "upgrade", Status: "upgrading", Reason: ReasonUpgrading, Progress: 50},
	}
	obs := newWorld(t, gr, 2)
	obs.run("driver")
	obs.newTemplate("driver", "node-1")
	return obs
}

func TestStatusOfARollback(t *testing.T) {
	obs := restored(t)
	gr := obs.Resource
	to := nameAt(t, "v1")
	got := obs.next()
	if got.Phase != "rollbacking" || got.ResourceStatuses[0].Status != "rollbacking" {
		t.Errorf("phase %s, driver %s, want rollbacking", got.Phase, got.ResourceStatuses[0].Status)
	}
	want := topsv1.ActionCondition{Action: "rollback", Type: "rollback", Status: "rollbacking", Reason: ReasonRollingBack, Progress: 50,
		Message: "back to " + to + ": 1 of 2 pods at the newest revision"}
	if diff := cmp.Diff(want, action(got, "rollback")); diff != "" {
		t.Errorf("rollback (-want +got):\n%s", diff)
	}
	want = topsv1.ActionCondition{Action: "upgrade", Type: "upgrade", Status: "failed", Reason: ReasonRolledBack, Progress: 50, Message: "rolled back to " + to}
	if diff := cmp.Diff(want, action(got, "upgrade")); diff != "" {
		t.Errorf("upgrade (-want +got):\n%s", diff)
	}
	if last := got.Conditions[len(got.Conditions)-1]; last.Action != "rollback" {
		t.Errorf("the newest condition is %+v", last)
	}
	if ready, progressing := standard(got, ConditionReady), standard(got, ConditionProgressing); ready != "False RollingBack: "+action(got, "rollback").Message ||
		progressing != "True RollingBack: "+action(got, "rollback").Message {
		t.Errorf("Ready %q, Progressing %q", ready, progressing)
	}
	gr.Status = got
	obs.component("driver").Pods[1].Labels["controller-revision-hash"] = "new"
	got = obs.next()
	done := success("rollback")
	done.Type = "rollback"
	if diff := cmp.Diff(done, action(got, "rollback")); diff != "" || got.Phase != "Running" {
		t.Errorf("phase %s, rollback when done (-want +got):\n%s", got.Phase, diff)
	}
}

func TestARollbackStaysOneAfterARestartAndAnotherSpecEndsIt(t *testing.T) {
	obs := restored(t)
	obs.Resource.Status = topsv1.GcuResourceStatus{} // what a killed operator did not write
	if got := obs.next(); got.Phase != "rollbacking" {
		t.Errorf("phase %s after a restart, want rollbacking", got.Phase)
	}
	obs.Resource.Status = obs.next()
	obs.Resource.Spec = driverAt("v3")
	got := obs.next()
	if got.Phase != "upgrading" || action(got, "upgrade").Status != "upgrading" {
		t.Errorf("another spec: phase %s, upgrade %+v", got.Phase, action(got, "upgrade"))
	}
	if c := action(got, "rollback"); c.Status != "failed" || c.Reason != ReasonSuperseded {
		t.Errorf("another spec: rollback %+v", c)
	}
}

func TestARollbackThatChangesNoPodIsDoneAtOnce(t *testing.T) {
	obs := restored(t)
	obs.newTemplate("driver", "node-1", "node-2")
	obs.Resource.Status.Conditions = nil
	got := obs.next()
	if c := action(got, "rollback"); c.Status != "success" || got.Phase != "Running" {
		t.Errorf("phase %s, rollback %+v", got.Phase, c)
	}
}

func TestARollbackThatCannotBeIsToldUntilItIsNotAskedForAnyMore(t *testing.T) {
	for name, obs := range map[string]*Observation{
		"at rest": newWorld(t, newGR(topsv1.GcuResourceSpec{}), 1), "while one is under way": restored(t)} {
		t.Run(name, func(t *testing.T) {
			underWay := obs.next().Phase == "rollbacking"
			obs.Rollback = &Failure{Reason: ReasonUnknownRevision, Message: "no such revision"}
			got := obs.next()
			if s := standard(got, ConditionDegraded); s != "True UnknownRevision: no such revision" {
				t.Errorf("Degraded %q", s)
			}
			want := topsv1.ActionCondition{Action: "rollback", Type: "rollback", Status: "failed", Reason: ReasonUnknownRevision, Message: "no such revision"}
			if diff := cmp.Diff(want, action(got, "rollback")); (diff != "") != underWay {
				t.Errorf("rollback (-want +got):\n%s", diff)
			}
			if told := notes(&topsv1.GcuResourceStatus{Phase: got.Phase}, &got); len(told) != 1 || told[0].reason != ReasonUnknownRevision {
				t.Errorf("events %+v", told)
			}
			obs.Resource.Status = got
			later := noon.Add(time.Hour)
			if diff := cmp.Diff(got, Describe(obs, Decide(obs, later), later)); diff != "" {
				t.Errorf("the status changed without cause:\n%s", diff)
			}
			obs.Rollback = nil
			if c := action(obs.next(), "rollback"); c.Reason == ReasonUnknownRevision {
				t.Errorf("nobody asks any more, but %+v", c)
			}
		})
	}
}

func TestAnUnreadableRevisionIsRefused(t *testing.T) {
	_, failure := specIn(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}})
	if failure == nil || failure.Reason != ReasonUnreadableRevision {
		t.Errorf("got %+v", failure)
	}
}
