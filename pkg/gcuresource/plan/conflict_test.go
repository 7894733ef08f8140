package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// another returns a gr of the given age with the given spec.
func another(name string, age time.Duration, spec topsv1.GcuResourceSpec) topsv1.GcuResource {
	return topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "another", CreationTimestamp: metav1.NewTime(world.Noon.Add(-age))}, Spec: spec}
}

func TestWhatExcludesEachOther(t *testing.T) {
	fields := &topsv1.BaseFields{}
	shared := topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{}}
	scheduler := topsv1.GcuResourceSpec{GcushareScheduler: fields}
	whole := topsv1.GcuResourceSpec{Plugin: fields}
	off := topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{BaseFields: topsv1.BaseFields{NotDeploy: true}}}
	for _, tc := range []struct {
		name     string
		spec     topsv1.GcuResourceSpec
		others   []topsv1.GcuResource
		excluded []state.ExcludedWorkload
		want     []string
	}{
		{"contract 34: whole cards are not handed out beside shared ones of an older gr", whole,
			[]topsv1.GcuResource{another("old", time.Hour, shared)}, nil, []string{"devicePlugin: failed ComponentConflict"}},
		{"contract 34: nor beside their scheduler", whole,
			[]topsv1.GcuResource{another("old", time.Hour, scheduler)}, nil, []string{"devicePlugin: failed ComponentConflict"}},
		{"contract 34: shared cards are not handed out beside whole ones of an older gr", shared,
			[]topsv1.GcuResource{another("old", time.Hour, whole)}, nil, []string{"gcusharePlugin: failed ComponentConflict"}},
		{"contract 34: of grs of one age the first by name deploys", whole,
			[]topsv1.GcuResource{another("a", time.Minute, shared)}, nil, []string{"devicePlugin: failed ComponentConflict"}},
		{"contract 34: and not the second", whole,
			[]topsv1.GcuResource{another("z", time.Minute, shared)}, nil, []string{"devicePlugin: DaemonSet (new)"}},
		{"contract 34: a younger gr excludes nothing", whole,
			[]topsv1.GcuResource{another("young", time.Second, shared)}, nil, []string{"devicePlugin: DaemonSet (new)"}},
		{"contract 34: what an older gr does not deploy excludes nothing", whole,
			[]topsv1.GcuResource{another("old", time.Hour, off)}, nil, []string{"devicePlugin: DaemonSet (new)"}},
		{"contract 34: one gr goes over from whole cards to shared ones", shared, nil, nil,
			[]string{"gcusharePlugin: (new) waiting until DaemonSet kube-system/whole is deleted", "delete DaemonSet kube-system/whole"}},
		{"contract 9: two grs may deploy the same component", whole,
			[]topsv1.GcuResource{another("old", time.Hour, whole)}, nil, []string{"devicePlugin: DaemonSet (new)"}},
		{"contract 34: what a younger gr has deployed already is waited for", whole,
			[]topsv1.GcuResource{another("young", time.Second, shared)},
			[]state.ExcludedWorkload{{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "x"}, Component: "gcusharePlugin", GcuResource: "young"}},
			[]string{"devicePlugin: (new) waiting until DaemonSet kube-system/x of GcuResource young is deleted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gr := world.NewGR(tc.spec)
			gr.CreationTimestamp = metav1.NewTime(world.Noon.Add(-time.Minute))
			obs := world.New(t, gr, 1)
			obs.Others, obs.Excluded = tc.others, tc.excluded
			if tc.others == nil {
				obs.Owned = []state.Owned{{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "whole"}, Component: "devicePlugin"}}
			}
			if diff := cmp.Diff(tc.want, summaryOf(Decide(obs.Observation, world.Noon))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfTwoWorkloadsWithOneNameTheSecondFails(t *testing.T) {
	same := &topsv1.BaseFields{Name: "same"}
	for name, tc := range map[string]struct {
		spec topsv1.GcuResourceSpec
		want []string
	}{
		"of another component": {topsv1.GcuResourceSpec{Driver: same, Toolkit: same}, []string{"driver: DaemonSet (new)", "toolkit: failed ObjectConflict"}},
		"of its own component": {topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{Redis: same, Agentd: same}},
			[]string{"nightingale: failed ObjectConflict"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, summaryOf(Decide(world.New(t, world.NewGR(tc.spec), 1).Observation, world.Noon))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
