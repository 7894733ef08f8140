package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

var (
	fields  = &topsv1.BaseFields{}
	renamed = &topsv1.BaseFields{Name: "another"}
	// whole and shared are specs of which one hands out whole cards, the other one shared ones.
	whole  = topsv1.GcuResourceSpec{Driver: fields, Toolkit: fields, DevicePlugin: fields}
	shared = topsv1.GcuResourceSpec{Driver: fields, Toolkit: fields, GcusharePlugin: &topsv1.GcusharePluginSpec{}, GcushareScheduler: fields}
)

// deleted returns what is deleted, as strings.
func deleted(w *world.World) (names []string) {
	for _, o := range Decide(w.Observation, world.Noon).Delete {
		names = append(names, o.Ref.String())
	}
	return names
}

// A component that waits for an earlier one cannot take the place of what it is to replace, maybe for long: one node of a thousand may
// need a repair.
func TestWhatIsReplacedStaysWhileItsReplacementWaits(t *testing.T) {
	const byNode = "AdvancedRollingUpdate"
	broken := func(w *world.World) { w.Component("driver").Pods = nil }
	excluded := func(spec topsv1.GcuResourceSpec) func(*world.World) {
		return func(w *world.World) {
			w.Resource.CreationTimestamp = metav1.NewTime(world.Noon.Add(-time.Minute))
			w.Others = []topsv1.GcuResource{another("young", time.Second, spec)}
			w.Excluded = []state.ExcludedWorkload{{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "apps", Name: "x"}, Component: "devicePlugin", GcuResource: "young"}}
		}
	}
	for name, tc := range map[string]struct {
		strategy string
		from, to topsv1.GcuResourceSpec
		// given is what keeps the new component waiting, nil for nothing.
		given func(*world.World)
		stays bool
	}{
		"nothing is waited for":                               {"", topsv1.GcuResourceSpec{Driver: fields, Exporter: fields}, topsv1.GcuResourceSpec{Driver: fields, Exporter: renamed}, nil, false},
		"an exporter that is renamed":                         {"", topsv1.GcuResourceSpec{Driver: fields, Exporter: fields}, topsv1.GcuResourceSpec{Driver: fields, Exporter: renamed}, broken, true},
		"an exporter that is removed":                         {"", topsv1.GcuResourceSpec{Driver: fields, Exporter: fields}, topsv1.GcuResourceSpec{Driver: fields}, broken, false},
		"a plugin that is replaced by another one":            {"", whole, shared, broken, true},
		"and not for its scheduler, which waits for that one": {"", whole, shared, nil, false},
		"the scheduler of shared cards": {byNode, topsv1.GcuResourceSpec{Driver: fields, GcushareScheduler: fields},
			topsv1.GcuResourceSpec{Driver: fields, GcushareScheduler: &topsv1.BaseFields{Namespace: "elsewhere"}}, broken, true},
		"volcano": {byNode, topsv1.GcuResourceSpec{Driver: fields, Volcano: &topsv1.VolcanoSpec{}},
			topsv1.GcuResourceSpec{Driver: fields, Volcano: &topsv1.VolcanoSpec{Namespace: "elsewhere"}}, broken, true},
		"volcano, while the driver gets a new template": {byNode, topsv1.GcuResourceSpec{Driver: fields, Volcano: &topsv1.VolcanoSpec{}},
			topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "v2"}, Volcano: &topsv1.VolcanoSpec{Namespace: "elsewhere"}}, func(w *world.World) { clear(w.Applied) }, true},
		"and while the cache does not have it yet": {byNode, topsv1.GcuResourceSpec{Driver: fields, Volcano: &topsv1.VolcanoSpec{}},
			topsv1.GcuResourceSpec{Driver: fields, Volcano: &topsv1.VolcanoSpec{Namespace: "elsewhere"}}, func(w *world.World) {
				uid := w.Component("driver").DaemonSet.UID
				applied := w.Applied[uid]
				applied.Generation = 2
				w.Applied[uid] = applied
			}, true},
		"a plugin that waits for a restart": {"", topsv1.GcuResourceSpec{Toolkit: fields, DevicePlugin: fields}, topsv1.GcuResourceSpec{Toolkit: fields, DevicePlugin: renamed},
			func(w *world.World) { w.Report("node-1", world.Runc) }, true},
		"a plugin that waits for another gr":             {"", whole, shared, excluded(whole), true},
		"or for one that removes its own":                {"", whole, shared, excluded(topsv1.GcuResourceSpec{}), true},
		"or for a younger one that waits for it as well": {"", whole, shared, excluded(shared), true},
		"but not if it is the younger one": {"", whole, shared, func(w *world.World) {
			excluded(shared)(w)
			w.Resource.CreationTimestamp = metav1.NewTime(world.Noon)
		}, false},
		"and not if the other one has a strategy, and waits until this one is gone": {"", whole, shared, func(w *world.World) {
			excluded(shared)(w)
			w.Others[0].Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: byNode}
		}, false},
		"but if the other one has wrong settings, and removes nothing": {"", whole, shared, func(w *world.World) {
			excluded(shared)(w)
			w.Others[0].Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: byNode + "s"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := edited(t, tc.from, tc.to)
			if w.Resource.Annotations[topsv1.AnnotationUpdateStrategy] = tc.strategy; tc.strategy == "" {
				delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
			}
			if tc.given != nil {
				tc.given(w)
			}
			if got := deleted(w); (len(got) == 0) != tc.stays {
				t.Errorf("%v go", got)
			}
		})
	}
}

// A DaemonSet that has begun to leave stays when the strategy is removed (ADR 0014). The driver that gets its name then keeps its own.
func TestTheNameOfWhatStaysIsNotTaken(t *testing.T) {
	const name = "enflame-gcu-exporter"
	w := edited(t, topsv1.GcuResourceSpec{Driver: fields, Exporter: fields}, topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Name: name}})
	c := w.Component("driver")
	c.DaemonSet, c.Pods = nil, nil
	for i := range w.Owned {
		if o := &w.Owned[i]; o.DaemonSet != nil && o.Ref.Name == name {
			o.DaemonSet.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
			o.Nodes = []string{"node-1"}
		}
	}
	decided := Decide(w.Observation, world.Noon)
	if len(decided.Delete) > 0 {
		t.Errorf("%v goes", decided.Delete)
	}
	if f := decided.Steps[0].Failure; f == nil || f.Message != "DaemonSet kube-system/"+name+
		" is still that of exporter, which has begun to leave and has no update strategy to go on: give driver another name" {
		t.Errorf("the driver has %+v", f)
	}
}

// Without a strategy nothing replaces the placeholders of a DaemonSet to whose name the gr went back: what runs in their place
// stays, with what its pods need, as what has begun to leave does. But not what is in the way of the one that takes over, and its name
// is not taken.
func TestWhatRunsInThePlaceOfPlaceholdersStays(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to topsv1.GcuResourceSpec
		back     string
		goes     string
	}{
		"a driver":     {topsv1.GcuResourceSpec{Driver: renamed}, topsv1.GcuResourceSpec{Driver: fields}, "driver", "nothing"},
		"whole cards":  {shared, whole, "devicePlugin", "gcushare-scheduler"},
		"an exporter":  {topsv1.GcuResourceSpec{Exporter: renamed}, topsv1.GcuResourceSpec{Exporter: fields}, "exporter", "Service "},
		"a taken name": {topsv1.GcuResourceSpec{Driver: fields, Exporter: renamed}, topsv1.GcuResourceSpec{Driver: renamed, Exporter: fields}, "exporter", "Service "},
	} {
		t.Run(name, func(t *testing.T) {
			w := edited(t, tc.from, tc.to)
			w.Run(tc.back)
			if name == "a taken name" {
				w.Component("driver").DaemonSet, w.Component("driver").Pods = nil, nil
			}
			pod := w.Component(tc.back).Pods[0]
			pod.Spec.NodeName, pod.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
			decided := Decide(w.Observation, world.Noon)
			for _, o := range decided.Delete {
				if !strings.Contains(o.Ref.String(), tc.goes) {
					t.Errorf("%s goes", o.Ref)
				}
			}
			if len(decided.Leave) != 1 {
				t.Errorf("%d leave", len(decided.Leave))
			}
			pod.Spec.NodeName, pod.Spec.SchedulingGates = "node-1", nil
			if got := deleted(w); !slices.ContainsFunc(got, func(o string) bool { return strings.HasPrefix(o, "DaemonSet") }) {
				t.Errorf("only %v go", got)
			}
		})
	}
}

// What waits must not wait for what it keeps itself.
func TestWhatIsInTheWayOfAnEarlierComponentGoes(t *testing.T) {
	w := edited(t, topsv1.GcuResourceSpec{Driver: fields, Toolkit: fields, Exporter: fields},
		topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Name: "enflame-gcu-exporter"}, Toolkit: fields, Exporter: renamed})
	delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
	w.Component("toolkit").Pods = nil
	want := []string{"DaemonSet kube-system/enflame-gcu-driver", "DaemonSet kube-system/enflame-gcu-exporter"}
	got := deleted(w)
	if slices.Sort(got); cmp.Diff(want, got) != "" {
		t.Errorf("%v go, want %v", got, want)
	}
}

// Two grs that are changed from whole to shared cards in the same hour: each one's new plugin excludes the old one of the other.
func TestTwoGrsThatExchangeTheirPluginsGoOnOneByOne(t *testing.T) {
	makes := func(name string, age time.Duration) *world.World {
		w := edited(t, whole, shared)
		delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
		w.Resource.Name, w.Resource.CreationTimestamp = name, metav1.NewTime(world.Noon.Add(-age))
		return w
	}
	older, younger := makes("a", time.Hour), makes("b", time.Minute)
	// sees lets one gr observe the other one.
	sees := func(w, other *world.World) {
		w.Others, w.Excluded = []topsv1.GcuResource{*other.Resource}, nil
		for i := range other.Owned {
			if o := &other.Owned[i]; o.Component == component.DevicePlugin {
				w.Excluded = append(w.Excluded, state.ExcludedWorkload{Ref: o.Ref, Component: o.Component, GcuResource: other.Resource.Name})
			}
		}
	}
	pass := func(w, other *world.World) bool {
		sees(w, other)
		going := Decide(w.Observation, world.Noon).Delete
		gone(w, going)
		return len(going) > 0
	}
	pods := younger.Component("driver").Pods
	younger.Component("driver").Pods = nil
	for range 2 {
		if pass(older, younger) || pass(younger, older) {
			t.Fatal("one lacks its cards while a driver is repaired")
		}
	}
	younger.Component("driver").Pods = pods
	if pass(older, younger) || !pass(younger, older) || !pass(older, younger) {
		t.Fatal("they do not go one after the other")
	}
	for _, both := range [][2]*world.World{{younger, older}, {older, younger}} {
		sees(both[0], both[1])
		steps := Decide(both[0].Observation, world.Noon).Steps
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Component == component.GcusharePlugin })
		if steps[i].Waits != "" || len(steps[i].Apply) == 0 {
			t.Errorf("%s: %q", both[0].Resource.Name, steps[i].Waits)
		}
	}
}

// Once what a component replaces is being deleted, all nodes lack it until it is created: an earlier component that loses a pod
// meanwhile does not hold it up. A manager that is started meanwhile sees it by what is left.
func TestAReplacementThatHasBegunGoesOn(t *testing.T) {
	renames := func(t *testing.T) (w *world.World, old *state.Owned) {
		w = edited(t, topsv1.GcuResourceSpec{Driver: fields, Exporter: fields}, topsv1.GcuResourceSpec{Driver: fields, Exporter: renamed})
		delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
		i := slices.IndexFunc(w.Owned, func(o state.Owned) bool { return o.Component == component.Exporter && o.DaemonSet != nil })
		return w, &w.Owned[i]
	}
	// step returns what happens to the component after the driver, with the driver's pod gone.
	step := func(w *world.World) (Step, Plan) {
		w.Component("driver").Pods = nil
		p := Decide(w.Observation, world.Noon)
		return p.Steps[1], p
	}
	t.Run("a DaemonSet, its pods, and then", func(t *testing.T) {
		w, old := renames(t)
		pods := []*corev1.Pod{{Spec: corev1.PodSpec{NodeName: "node-1"}}}
		first := Decide(w.Observation, world.Noon)
		if w.Begun = first.Begun(); len(first.Delete) == 0 {
			t.Fatal("nothing goes")
		}
		old.Deleting = true
		deleting, p := step(w)
		w.Begun = p.Begun()
		gone(w, first.Delete)
		w.Former = map[string][]*corev1.Pod{component.Exporter: pods}
		left, p := step(w)
		w.Begun, w.Former = p.Begun(), nil
		last, _ := step(w)
		want := []string{"waiting until DaemonSet kube-system/enflame-gcu-exporter is deleted", "waiting until the pods of a former DaemonSet are gone on node-1", ""}
		if diff := cmp.Diff(want, []string{deleting.Waits, left.Waits, last.Waits}); diff != "" || len(last.Apply) == 0 {
			t.Errorf("%d objects are applied at last (-want +waits):\n%s", len(last.Apply), diff)
		}
		w.Run(component.Exporter)
		if _, p := step(w); p.Begun()[component.Exporter] {
			t.Error("a replacement that is done goes on")
		}
	})
	for name, given := range map[string]func(w *world.World, old *state.Owned){
		"being deleted": func(_ *world.World, old *state.Owned) { old.Deleting = true },
		"with pods left": func(w *world.World, old *state.Owned) {
			gone(w, []state.Owned{*old})
			w.Former = map[string][]*corev1.Pod{component.Exporter: {{Spec: corev1.PodSpec{NodeName: "node-1"}}}}
		},
	} {
		t.Run("after a restart, "+name, func(t *testing.T) {
			w, old := renames(t)
			given(w, old)
			if got, p := step(w); got.Waits == "waiting for driver" || !p.Begun()[component.Exporter] {
				t.Errorf("it waits: %q", got.Waits)
			}
		})
	}
	t.Run("webhooks", func(t *testing.T) {
		w := edited(t, topsv1.GcuResourceSpec{Driver: fields, Volcano: &topsv1.VolcanoSpec{}},
			topsv1.GcuResourceSpec{Driver: fields, Volcano: &topsv1.VolcanoSpec{Namespace: "elsewhere"}})
		gone(w, Decide(w.Observation, world.Noon).Delete)
		_, p := step(w)
		if got := kinds(p.Delete); got != "ConfigMap Deployment Job Service ServiceAccount" {
			t.Fatalf("%q go", got)
		}
		w.Begun = p.Begun()
		gone(w, p.Delete)
		if got, _ := step(w); got.Waits != "" || len(got.Apply) == 0 {
			t.Errorf("%d objects are applied, %q", len(got.Apply), got.Waits)
		}
	})
	t.Run("but not the scheduler of the plugin that takes over", func(t *testing.T) {
		w := edited(t, whole, shared)
		delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
		first := Decide(w.Observation, world.Noon)
		w.Begun = first.Begun()
		gone(w, first.Delete)
		var waits []string
		for _, s := range Decide(w.Observation, world.Noon).Steps[2:] {
			waits = append(waits, s.Waits)
		}
		if diff := cmp.Diff([]string{"", "waiting for gcusharePlugin"}, waits); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("but not a component that is new", func(t *testing.T) {
		w, old := renames(t)
		gone(w, []state.Owned{*old})
		if got, _ := step(w); got.Waits != "waiting for driver" {
			t.Errorf("%q", got.Waits)
		}
	})
}
