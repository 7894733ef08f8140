package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// edited returns a cluster in which all of a spec runs, and that is now to have another one.
func edited(t *testing.T, from, to topsv1.GcuResourceSpec) *world.World {
	before, now := world.New(t, world.NewGR(from), 1), world.New(t, world.NewGR(to), 1)
	run := func(w *world.World) {
		for i := range w.Components {
			w.Run(w.Components[i].Name)
		}
	}
	run(before)
	run(now)
	existed := func(ref component.Ref) bool {
		return ref.Installed() || slices.ContainsFunc(before.Components, func(c state.Component) bool { return c.Live[ref] != nil })
	}
	for i := range now.Components {
		c := &now.Components[i]
		for _, d := range c.Objects {
			if !existed(d.Ref) {
				now.Lose(c.Name, d.Ref.Kind, d.Ref.Name)
			}
		}
		if c.PerNode != nil && c.Live[c.DaemonSetRef()] == nil {
			c.DaemonSet, c.Pods = nil, nil
		}
	}
	now.Owned = before.Owned
	for i := range now.Owned {
		if o := &now.Owned[i]; o.Ref.Kind == component.DaemonSetKind.Kind {
			o.DaemonSet = before.Component(o.Component).DaemonSet
		}
	}
	return now
}

// gone removes objects from a cluster.
func gone(w *world.World, objects []state.Owned) {
	for _, o := range objects {
		w.Owned = slices.DeleteFunc(w.Owned, func(other state.Owned) bool { return other.Ref == o.Ref })
		for i := range w.Components {
			delete(w.Components[i].Live, o.Ref)
		}
	}
}

// kinds returns the kinds of objects, sorted, each once.
func kinds(objects []state.Owned) string {
	var of []string
	for _, o := range objects {
		of = append(of, o.Ref.Kind)
	}
	slices.Sort(of)
	return strings.Join(slices.Compact(of), " ")
}

func TestWebhooksGoBeforeTheWorkloadBehindThemIsReplaced(t *testing.T) {
	const webhooks = "MutatingWebhookConfiguration ValidatingWebhookConfiguration"
	for name, tc := range map[string]struct {
		volcano topsv1.VolcanoSpec
		waits   string
		// then are the kinds of what goes next, and new what is applied beside.
		then string
		new  []string
	}{
		"another namespace": {topsv1.VolcanoSpec{Namespace: "elsewhere"}, "waiting until MutatingWebhookConfiguration volcano-admission-service-jobs-mutate is deleted",
			"ConfigMap Deployment Job Service ServiceAccount", nil},
		"another name": {topsv1.VolcanoSpec{Admission: &topsv1.BaseFields{Name: "another"}}, "", "Deployment", []string{"Deployment"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := edited(t, topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}}, topsv1.GcuResourceSpec{Volcano: &tc.volcano})
			first := Decide(w.Observation, world.Noon)
			if got := kinds(first.Delete); got != webhooks || len(first.Delete) != 7 || len(first.Steps[0].Apply) > 0 || first.Steps[0].Waits != tc.waits {
				t.Errorf("first %d of %s go, %d objects are applied, %q", len(first.Delete), got, len(first.Steps[0].Apply), first.Steps[0].Waits)
			}
			gone(w, first.Delete)
			next := Decide(w.Observation, world.Noon)
			var applied []string
			for _, d := range next.Steps[0].Apply {
				if d.Ref.Workload() || d.Ref.Webhook() {
					applied = append(applied, d.Ref.Kind)
				}
			}
			if diff := cmp.Diff(tc.new, applied); diff != "" || kinds(next.Delete) != tc.then {
				t.Errorf("then %s go (-want +applied):\n%s", kinds(next.Delete), diff)
			}
		})
	}
	t.Run("but not when another workload is renamed", func(t *testing.T) {
		w := edited(t, topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}}, topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{Scheduler: &topsv1.BaseFields{Name: "another"}}})
		if got := Decide(w.Observation, world.Noon); kinds(got.Delete) != "Deployment" || len(got.Steps[0].Apply) == 0 {
			t.Errorf("%s go, %d objects are applied", kinds(got.Delete), len(got.Steps[0].Apply))
		}
	})
}

func TestWhatCannotBeReplacedStays(t *testing.T) {
	exporter := func(name string) topsv1.GcuResourceSpec {
		return topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{Name: name}}
	}
	w := edited(t, exporter(""), exporter("another"))
	delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
	if got := kinds(Decide(w.Observation, world.Noon).Delete); got != "DaemonSet Service" {
		t.Fatalf("%s go", got)
	}
	c := w.Component("exporter")
	c.Live[c.DaemonSetRef()] = c.DaemonSetRef().Metadata()
	got := Decide(w.Observation, world.Noon)
	if f := got.Steps[1].Failure; f == nil || f.Reason != state.ReasonObjectConflict || len(got.Delete) > 0 {
		t.Errorf("%s go, failure %+v", kinds(got.Delete), f)
	}
}

// A node port has one Service.
func TestAServiceGoesBeforeTheOneThatAsksForItsNodePort(t *testing.T) {
	exporter := func(name string) topsv1.GcuResourceSpec {
		return topsv1.GcuResourceSpec{Exporter: &topsv1.BaseFields{Name: name}}
	}
	for name, tc := range map[string]struct {
		to   topsv1.GcuResourceSpec
		want string
	}{
		"under another name": {exporter("another"), "Service"},
		"removed":            {topsv1.GcuResourceSpec{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := edited(t, exporter(""), tc.to)
			w.Resource.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
			if got := kinds(Decide(w.Observation, world.Noon).Delete); got != tc.want {
				t.Errorf("%q goes before the pods, want %q", got, tc.want)
			}
		})
	}
}

// A plugin that would take the place of another one, and whose creation would be refused, leaves it the cards.
func TestWhatIsExcludedStaysUntilItCanBeReplaced(t *testing.T) {
	before := topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{}}
	after := topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}, GcusharePlugin: &topsv1.GcusharePluginSpec{}}
	w := edited(t, before, after)
	delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
	if got := kinds(Decide(w.Observation, world.Noon).Delete); got != "DaemonSet" {
		t.Fatalf("%s go", got)
	}
	plugin := w.Component("gcusharePlugin")
	plugin.DaemonSet, plugin.Failure = nil, &state.Failure{Reason: state.ReasonNamespaceMissing}
	if got := kinds(Decide(w.Observation, world.Noon).Delete); got != "" {
		t.Errorf("%s go", got)
	}
}

// Webhooks go before the pods behind them, and no other component may start beside its old pods meanwhile.
func TestADriverDoesNotStartBesideItsOldPodsWhileWebhooksGo(t *testing.T) {
	w := edited(t, topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Volcano: &topsv1.VolcanoSpec{}}, topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Name: "another"}})
	delete(w.Resource.Annotations, topsv1.AnnotationUpdateStrategy)
	got := Decide(w.Observation, world.Noon)
	if s := got.Steps[0]; len(s.Apply) > 0 || kinds(got.Delete) != "MutatingWebhookConfiguration ValidatingWebhookConfiguration" {
		t.Errorf("%d objects of the driver are applied, %s go", len(s.Apply), kinds(got.Delete))
	}
}
