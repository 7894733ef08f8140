package status

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// A rollout waits while the DaemonSets of a gr have different upgrade annotations. This package knows when that
// does not end by itself: the operator never removes an annotation that somebody else has set.
func TestUpgradeAnnotationsThatOnlyADaemonSetHas(t *testing.T) {
	const rolling = "AdvancedRollingUpdate"
	pause := func(o *world.World, components ...string) {
		for _, name := range components {
			o.Component(name).DaemonSet.Annotations[topsv1.AnnotationPaused] = "true"
		}
	}
	applied := func(o *world.World, change func(*state.Applied)) {
		uid := o.Component("driver").DaemonSet.UID
		a := o.Applied[uid]
		change(&a)
		o.Applied[uid] = a
	}
	pauseLeaving := func(o *world.World, applied string) {
		pause(o, "driver")
		ds := o.Component("driver").DaemonSet
		o.Components = slices.DeleteFunc(o.Components, func(c state.Component) bool { return c.Name == "driver" })
		i := slices.IndexFunc(o.Owned, func(owned state.Owned) bool { return owned.UID == ds.UID })
		o.Owned[i].DaemonSet, o.Owned[i].Nodes = ds, []string{"node-1"}
		ds.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
		if delete(o.Applied, ds.UID); applied != "" {
			o.Applied[ds.UID] = state.Applied{ResourceVersion: applied}
		}
	}
	const nothing = "AsExpected: nothing is wrong"
	const remove = "SettingsDisagree: annotation topsops.enflame.com/paused is on DaemonSet kube-system/enflame-gcu-driver, but not on the GcuResource: remove it from the DaemonSet"
	for _, tc := range []struct {
		name, strategy string
		given          func(*world.World)
		degraded       string
		summary        string
	}{
		{"no DaemonSet has others", rolling, func(*world.World) {}, nothing, ""},
		{"one DaemonSet is paused, so that the rollout of all waits for good", rolling, func(o *world.World) { pause(o, "driver") }, remove, "Stalled SettingsDisagree"},
		{"not a value that is wrong itself", rolling, func(o *world.World) { o.Component("driver").DaemonSet.Annotations[topsv1.AnnotationPaused] = "maybe" }, remove, "Stalled SettingsDisagree"},
		{"the settings that are wrong are those of the gr", "Sideways", func(o *world.World) { pause(o, "driver") },
			`InvalidUpdateStrategy: annotation topsops.enflame.com/update-strategy is "Sideways": set it to AdvancedRollingUpdate or OTA, or remove it`, "Stalled InvalidUpdateStrategy"},
		{"all DaemonSets have it, and agree", rolling, func(o *world.World) { pause(o, "driver", "exporter") }, nothing, ""},
		{"all DaemonSets have others, and different ones", rolling, func(o *world.World) {
			pause(o, "driver")
			o.Component("exporter").DaemonSet.Annotations[topsv1.AnnotationMaxUnavailable] = "1"
		}, remove, "Stalled SettingsDisagree"},
		{"one that leaves is paused", rolling, func(o *world.World) { pauseLeaving(o, "1") }, remove, "Stalled SettingsDisagree"},
		{"one that leaves was paused, and the cache does not show yet that it is gone", rolling, func(o *world.World) { pauseLeaving(o, "9") }, nothing, ""},
		{"one that leaves is paused, and nothing was applied yet", rolling, func(o *world.World) { pauseLeaving(o, "") }, nothing, ""},
		{"an annotation of others", rolling, func(o *world.World) { o.Component("driver").DaemonSet.Annotations["a"] = "b" }, nothing, ""},
		{"a pause without a strategy means nothing", "", func(o *world.World) { pause(o, "driver") }, nothing, ""},
		{"the gr had it, and is about to be applied without", rolling, func(o *world.World) {
			pause(o, "driver")
			applied(o, func(a *state.Applied) { a.Hash = "before" })
		}, nothing, "Reconciling Complete"},
		{"the gr had it, and the component cannot be applied without", rolling, func(o *world.World) {
			pause(o, "driver")
			applied(o, func(a *state.Applied) { a.Hash = "before" })
			o.Component("driver").Failure = &state.Failure{Reason: state.ReasonApplyFailed, Message: "no", Retry: true}
		}, "ApplyFailed: driver: no", "Reconciling Failed"},
		{"the gr had it, and the cache does not show yet that it is gone", rolling, func(o *world.World) {
			pause(o, "driver")
			applied(o, func(a *state.Applied) { a.ResourceVersion = "6" })
		}, nothing, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gr := world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}})
			gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: tc.strategy}
			if tc.strategy == "" {
				gr.Annotations = nil
			}
			o := world.New(t, gr, 2)
			o.Run("driver", "exporter")
			for _, name := range []string{"driver", "exporter"} {
				o.Component(name).DaemonSet.Annotations = component.UpgradeAnnotations(gr)
			}
			tc.given(o)
			s := Describe(o.Observation, plan.Decide(o.Observation, world.Noon), world.Noon)
			degraded := ""
			for _, c := range s.StandardConditions {
				if c.Type == ConditionDegraded {
					degraded = c.Reason + ": " + c.Message
				}
			}
			if diff := cmp.Diff(tc.degraded, degraded); diff != "" {
				t.Errorf("Degraded (-want +got):\n%s", diff)
			}
			if got := summary(t, s); got != tc.summary {
				t.Errorf("summary %q, want %q", got, tc.summary)
			}
		})
	}
}
