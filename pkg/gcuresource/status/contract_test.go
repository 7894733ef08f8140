package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

func TestContractWords(t *testing.T) {
	t.Run("contract 38: the four actions", func(t *testing.T) {
		if diff := cmp.Diff([]string{"deploy", "delete", "upgrade", "rollback"},
			[]string{topsv1.ActionDeploy, topsv1.ActionDelete, topsv1.ActionUpgrade, topsv1.ActionRollback}); diff != "" {
			t.Error(diff)
		}
	})
	for _, tc := range []struct {
		name          string
		given         func(gr *topsv1.GcuResource, obs *world.World) topsv1.GcuResourceStatus
		phase, action string
		word          string
	}{
		{"contract 39: deploying", func(_ *topsv1.GcuResource, obs *world.World) topsv1.GcuResourceStatus {
			obs.Create("driver")
			return next(obs)
		}, "deploying", "deploy", "deploying"},
		{"contract 39: success", func(_ *topsv1.GcuResource, obs *world.World) topsv1.GcuResourceStatus {
			obs.Run("driver")
			return next(obs)
		}, "Running", "deploy", "success"},
		{"contract 39: failed", func(_ *topsv1.GcuResource, obs *world.World) topsv1.GcuResourceStatus {
			obs.Component("driver").Failure = &state.Failure{Reason: state.ReasonApplyFailed, Message: "no"}
			return next(obs)
		}, "failed", "deploy", "failed"},
		{"contract 39: deleting", func(_ *topsv1.GcuResource, obs *world.World) topsv1.GcuResourceStatus {
			obs.Run("driver")
			return DescribeTeardown(obs.Observation, plan.DecideTeardown(obs.Observation), world.Noon)
		}, "deleting", "delete", "deleting"},
		{"contract 39: upgrading", func(gr *topsv1.GcuResource, obs *world.World) topsv1.GcuResourceStatus {
			obs.Run("driver")
			obs.NewTemplate("driver")
			return next(obs)
		}, "upgrading", "upgrade", "upgrading"},
		{"contract 38 and 39: rollbacking", func(gr *topsv1.GcuResource, obs *world.World) topsv1.GcuResourceStatus {
			gr.Annotations[topsv1.AnnotationRolledBackTo], _ = revision.Name(gr)
			obs.Run("driver")
			obs.NewTemplate("driver")
			return next(obs)
		}, "rollbacking", "rollback", "rollbacking"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gr := world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}})
			gr.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
			status := tc.given(gr, world.New(t, gr, 2))
			if status.Phase != tc.phase || world.Action(status, tc.action).Status != tc.word {
				t.Errorf("phase %s, conditions %+v", status.Phase, status.Conditions)
			}
		})
	}
}

func TestContractRuntime(t *testing.T) {
	for _, name := range []string{"devicePlugin", "gfd"} {
		t.Run("contract 60: a failing pod is reported with its likely cause: "+name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{DevicePlugin: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}), 2)
			obs.Run("devicePlugin", "gfd")
			obs.Broken(name, "node-2", "CrashLoopBackOff")
			want := "waiting for pods on 1 of 2 nodes: node-2 (main: CrashLoopBackOff); its containers need enflame as the default container " +
				"runtime of the node: restart docker or containerd there if that was not done since toolkit was deployed"
			for _, rs := range next(obs).ResourceStatuses {
				if rs.Name == name && rs.Message != want {
					t.Errorf("message %q", rs.Message)
				}
			}
		})
	}
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}), 2)
	obs.Run("driver")
	obs.Broken("driver", "node-2", "CrashLoopBackOff")
	if m := next(obs).ResourceStatuses[0].Message; strings.Contains(m, "runtime") {
		t.Errorf("the driver needs no runtime, but: %s", m)
	}
}
