package revision

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/world"
)

// historyOf returns the history of a gr at the last of versions, which were applied one after the
// other.
func historyOf(t *testing.T, versions ...string) (*topsv1.GcuResource, *History) {
	t.Helper()
	var list []appsv1.ControllerRevision
	var gr *topsv1.GcuResource
	for i, version := range versions {
		gr = world.NewGR(world.DriverAt(version))
		h, err := NewHistory(gr, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := h.New(gr, "kube-system")
		r.Revision = int64(i + 1)
		list = append(list, *r)
	}
	h, err := NewHistory(gr, list)
	if err != nil {
		t.Fatal(err)
	}
	return gr, h
}

func nameAt(t *testing.T, version string) string {
	t.Helper()
	name, err := Name(world.NewGR(world.DriverAt(version)))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestARevisionIsNamedByItsSpec(t *testing.T) {
	selector := func(keys ...string) topsv1.GcuResourceSpec {
		spec := world.DriverAt("v1")
		spec.Driver.NodeSelector = map[string]string{}
		for _, k := range keys {
			spec.Driver.NodeSelector[k] = "x"
		}
		return spec
	}
	name := func(spec topsv1.GcuResourceSpec, change func(*topsv1.GcuResource)) string {
		gr := world.NewGR(spec)
		change(gr)
		n, err := Name(gr)
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
		name, requested, want, reason string
		versions                      []string
	}{
		{"previous is the newest but the current one", "previous", "v2", "", []string{"v1", "v2", "v3"}},
		{"a revision by its name", "v1", "v1", "", []string{"v1", "v2", "v3"}},
		{"the current one by its name", "v3", "v3", "", []string{"v1", "v2", "v3"}},
		{"there is no previous one", "previous", "", ReasonNoPreviousRevision, []string{"v1"}},
		{"nothing has that name", "v9", "", ReasonUnknownRevision, []string{"v1", "v2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, h := historyOf(t, tc.versions...)
			requested := tc.requested
			if requested != topsv1.RollbackToPrevious {
				requested = nameAt(t, tc.requested)
			}
			got, failure := h.Target(requested)
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

func TestAnUnknownRevisionListsTheStoredOnes(t *testing.T) {
	_, h := historyOf(t, "v1", "v2")
	_, failure := h.Target("gpu-nonsense")
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
	again, err := NewHistory(gr, []appsv1.ControllerRevision{*h.revisions[1], foreign})
	if err != nil {
		t.Fatal(err)
	}
	if len(again.revisions) != 1 || again.HasCurrent() || again.Next() != 2 {
		t.Errorf("got %v, kept %v, next %d", again.names(), again.HasCurrent(), again.Next())
	}
	if !Leftover(gr, &foreign) || Leftover(gr, h.revisions[0]) {
		t.Error("what a gr of this name left behind is told by the UID of its owner")
	}
	foreign.OwnerReferences[0].Kind = "DaemonSet"
	if Leftover(gr, &foreign) {
		t.Error("a revision of a DaemonSet was taken for one of a gr")
	}
}

func TestTheComponentsThatASpecChanges(t *testing.T) {
	named := func(name string) topsv1.GcuResourceSpec {
		return topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Name: name}, GFD: &topsv1.BaseFields{}}
	}
	with := func(version string, more ...func(*topsv1.GcuResourceSpec)) topsv1.GcuResourceSpec {
		spec := world.DriverAt(version)
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
		{"the first spec changes nothing", []topsv1.GcuResourceSpec{world.DriverAt("v1")}, nil},
		{"a version is another template", []topsv1.GcuResourceSpec{world.DriverAt("v1"), world.DriverAt("v2")}, []string{"driver"}},
		{"what is added has no pods to replace", []topsv1.GcuResourceSpec{world.DriverAt("v1"), with("v1", monitored("v1"))}, nil},
		{"what is removed has none either", []topsv1.GcuResourceSpec{with("v1", monitored("v1")), world.DriverAt("v1")}, nil},
		{"one part of a component is enough", []topsv1.GcuResourceSpec{with("v1", monitored("v1")), with("v1", monitored("v2"))}, []string{"nightingale"}},
		{"another name is another workload", []topsv1.GcuResourceSpec{named("a"), named("b")}, []string{"driver"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var list []appsv1.ControllerRevision
			var gr *topsv1.GcuResource
			for i, spec := range tc.specs {
				gr = world.NewGR(spec)
				h, err := NewHistory(gr, list)
				if err != nil {
					t.Fatal(err)
				}
				r := h.New(gr, "kube-system")
				r.Revision = int64(i + 1)
				list = append(list, *r)
			}
			h, err := NewHistory(gr, list)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Changed(gr)
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestSurplusRevisions(t *testing.T) {
	var versions []string
	for i := 1; i <= Limit+3; i++ {
		versions = append(versions, fmt.Sprintf("v%d", i))
	}
	for _, tc := range []struct {
		name      string
		versions  []string
		protected []string
		want      []string
	}{
		{"ten are kept", versions[:Limit], nil, nil},
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
			list, err := h.Surplus(nil, protected...)
			if err != nil {
				t.Fatal(err)
			}
			surplus := &History{revisions: list}
			if diff := cmp.Diff(want, surplus.names(), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the current one stays though it is not renumbered yet", func(t *testing.T) {
		_, h := historyOf(t, versions...)
		h.Current = nameAt(t, "v1")
		surplus, err := h.Surplus(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range surplus {
			if r.Name == h.Current {
				t.Error("the current revision is surplus")
			}
		}
	})
}

// A DaemonSet that leaves its nodes may do so for longer than ten specs: the newest one that gives it its
// name stays, because nothing else says whose it is.
func TestTheSpecThatNamesADaemonSetStays(t *testing.T) {
	var list []appsv1.ControllerRevision
	var gr *topsv1.GcuResource
	for i, name := range append([]string{"left", "left", "gone"}, slices.Repeat([]string{"current"}, Limit)...) {
		spec := world.DriverAt(fmt.Sprintf("v%d", i))
		spec.Driver.Namespace, spec.Driver.Name = "apps", name
		gr = world.NewGR(spec)
		h, err := NewHistory(gr, list)
		if err != nil {
			t.Fatal(err)
		}
		r := h.New(gr, "kube-system")
		r.Labels["test"] = fmt.Sprint(i)
		list = append(list, *r)
	}
	h, err := NewHistory(gr, list)
	if err != nil {
		t.Fatal(err)
	}
	in := func(namespace, name string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	current, left, forged := in("apps", "current"), in("apps", "left"), in("tenant", "left")
	surplus, err := h.Surplus([]*appsv1.DaemonSet{current, left, forged})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range surplus {
		got = append(got, r.Labels["test"])
	}
	if diff := cmp.Diff([]string{"2", "0"}, got); diff != "" {
		t.Errorf("surplus (-want +got):\n%s", diff)
	}
	made, err := CreatedBy(gr, []*appsv1.DaemonSet{current, left, forged}, func() (*History, error) { return h, nil })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*appsv1.DaemonSet{current, left}, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
}

func TestAnUnreadableRevisionIsRefused(t *testing.T) {
	_, failure := Spec(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}})
	if failure == nil || failure.Reason != ReasonUnreadableRevision {
		t.Errorf("got %+v", failure)
	}
}
