package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// summary is the condition for kstatus, empty if there is none. It must be the first, and the only one.
func summary(t *testing.T, status topsv1.GcuResourceStatus) string {
	t.Helper()
	found := ""
	for i, c := range status.Conditions {
		if c.Action != topsv1.ConditionReconciling && c.Action != topsv1.ConditionStalled {
			continue
		}
		if i != 0 || c.Status != "True" || c.Type != c.Action {
			t.Errorf("condition %d is %+v", i, c)
		}
		found += c.Type + " " + c.Reason
	}
	return found
}

func TestWhatIsLeftToDoIsReconcilingOrStalled(t *testing.T) {
	const rolling, ota = "AdvancedRollingUpdate", "OTA"
	upgrading := func(o *world.World) { o.Run("driver"); o.NewTemplate("driver") }
	removing := func(o *world.World) {
		o.Run("driver")
		leaves := &appsv1.DaemonSet{}
		leaves.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
		o.Owned = append(o.Owned, state.Owned{Component: "exporter", DaemonSet: leaves, Nodes: []string{"node-1"},
			Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "exp"}})
		o.Rollout.Unfinished = o.Resource.Annotations[topsv1.AnnotationUpdateStrategy] != ota
	}
	for _, tc := range []struct {
		name, strategy string
		given          func(*world.World)
		want           string
		// progressing is how the standard condition begins; not asked for if empty.
		progressing string
	}{
		{"a component is missing", rolling, func(*world.World) {}, "Reconciling Deploying", ""},
		{"a component has pods on some nodes", rolling, func(o *world.World) { o.Create("driver") }, "Reconciling Deploying", ""},
		{"everything runs: only the element of the guide (contract statement 37)", rolling, func(o *world.World) { o.Run("driver") }, "", "False Complete"},
		{"a node is not Ready, which is not waited for", rolling, func(o *world.World) { o.Run("driver"); o.Off("node-1") }, "", ""},
		{"nodes are upgraded", rolling, upgrading, "Reconciling Upgrading", "True Upgrading"},
		{"a paused upgrade is not done", rolling, func(o *world.World) {
			upgrading(o)
			o.Resource.Annotations[topsv1.AnnotationPaused] = "true"
		}, "Reconciling Paused", ""},
		{"without a strategy nobody replaces the pods", "", upgrading, "Reconciling NoUpdateStrategy", ""},
		{"under OTA every node has been offered the revision", ota, upgrading, "", ""},
		{"a halted rollout waits for a person", rolling, func(o *world.World) {
			upgrading(o)
			o.Rollout.Stalled = &state.Failure{Reason: ReasonHalted, Message: "2 nodes failed"}
		}, "Stalled Halted", ""},
		{"the last node has the newest pods, and is verified or restarts its runtime", rolling, func(o *world.World) {
			o.Run("driver")
			o.Rollout.Unfinished = true
		}, "Reconciling Upgrading", "True Upgrading: the rollout is not finished"},
		{"a component leaves node by node", rolling, removing, "Reconciling Removing",
			"True Removing: removing node by node what is no longer in the spec: DaemonSet kube-system/exp"},
		{"a paused removal is not done", rolling, func(o *world.World) {
			o.Resource.Annotations[topsv1.AnnotationPaused] = "true"
			removing(o)
		}, "Reconciling Paused", "False Paused: removing node by node"},
		{"without a strategy nothing leaves", "", removing, "Reconciling NoUpdateStrategy", "False NoUpdateStrategy: removing node by node"},
		{"under OTA every node has been offered the removal", ota, removing, "", "False WaitingForNodes: removing node by node"},
		{"a halted removal waits for a person", rolling, func(o *world.World) {
			removing(o)
			failed := &state.Failure{Reason: ReasonHalted, Message: "2 nodes failed"}
			o.Rollout = state.Rollout{Halt: failed, Stalled: failed}
		}, "Stalled Halted", "False Halted: 2 nodes failed"},
		{"a revision that cannot be restored waits for a person", rolling, func(o *world.World) {
			o.Run("driver")
			o.Rollback = &state.Failure{Reason: revision.ReasonUnknownRevision, Message: "there is none"}
		}, "Stalled UnknownRevision", ""},
		{"wrong settings wait for a person", "Sideways", func(o *world.World) { o.Run("driver") }, "Stalled InvalidUpdateStrategy", ""},
		{"what a person has to change", rolling, func(o *world.World) {
			o.Component("driver").Failure = &state.Failure{Reason: state.ReasonObjectConflict, Message: "foreign"}
		}, "Stalled ObjectConflict", ""},
		{"what is tried again", rolling, func(o *world.World) {
			o.Component("driver").Failure = &state.Failure{Reason: state.ReasonApplyFailed, Message: "no", Retry: true}
		}, "Reconciling Failed", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gr := world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}})
			if tc.strategy != "" {
				gr.Annotations[topsv1.AnnotationUpdateStrategy] = tc.strategy
			}
			obs := world.New(t, gr, 2)
			tc.given(obs)
			got := next(obs)
			if s := summary(t, got); s != tc.want {
				t.Errorf("got %q, want %q: %+v", s, tc.want, got.Conditions)
			}
			if c := world.Standard(got, ConditionProgressing); !strings.HasPrefix(c, tc.progressing) {
				t.Errorf("Progressing is %q, want %q", c, tc.progressing)
			}
			if tc.want == "" && len(got.Conditions) != 1 && tc.strategy != ota {
				t.Errorf("the list of a finished gr has %d elements", len(got.Conditions))
			}
		})
	}
}

func TestAGRThatIsDoneLosesTheSummary(t *testing.T) {
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}), 2)
	obs.Create("driver")
	obs.Resource.Status = next(obs)
	obs.Run("driver")
	if got := next(obs); summary(t, got) != "" || len(got.Conditions) != 1 {
		t.Errorf("got %+v", got.Conditions)
	}
}

func TestASummaryKeepsItsTimeWhileItSaysTheSame(t *testing.T) {
	list := withSummary(nil, topsv1.ConditionReconciling, "Deploying", "1 of 2", world.Noon)
	if diff := cmp.Diff(list, withSummary(list, topsv1.ConditionReconciling, "Deploying", "1 of 2", world.Noon.Add(time.Minute))); diff != "" {
		t.Error(diff)
	}
	next := withSummary(list, topsv1.ConditionStalled, "Halted", "2 nodes failed", world.Noon.Add(time.Minute))
	if len(next) != 1 || next[0].Type != topsv1.ConditionStalled || !next[0].LastUpdateTime.Time.Equal(world.Noon.Add(time.Minute)) {
		t.Errorf("got %+v", next)
	}
}

func TestAGRThatIsBeingDeletedIsReconciling(t *testing.T) {
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}), 2)
	obs.Run("driver")
	got := DescribeTeardown(obs.Observation, plan.DecideTeardown(obs.Observation), world.Noon)
	if s := summary(t, got); !strings.HasPrefix(s, "Reconciling Deleting") {
		t.Errorf("got %q", s)
	}
}
