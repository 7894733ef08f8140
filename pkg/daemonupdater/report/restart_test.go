package report

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// toolkitOn returns a world with a toolkit at its target on node a, whose default runtime is given.
func toolkitOn(runtime string) (*world, *corev1.Pod) {
	ds := fixture.ComponentOf("toolkit")
	pod := fixture.PodOn(ds, "a", fixture.NewHash)
	u := fixture.NodeUpgrade("a")
	u.Status.Host = &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: runtime}}
	return seen{members: []memberAndPods{memberWith(ds, pod)}, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{u}}.observe(), pod
}

func TestUnderOTAARestartIsOfferedOnTheNode(t *testing.T) {
	for _, tt := range []struct {
		runtime  string
		strategy daemonset.Strategy
		want     corev1.ConditionStatus
	}{
		{"runc", daemonset.OTA, corev1.ConditionTrue},
		{"enflame", daemonset.OTA, corev1.ConditionFalse},
		{"runc", daemonset.AdvancedRollingUpdate, ""},
		{"runc", rollout.RestartsOnly, ""},
	} {
		w, pod := toolkitOn(tt.runtime)
		in := inputFrom(w)
		in.Settings.Strategy = tt.strategy
		fleet := rollout.NewFleet(&in)
		fleet.Set(*w.fleet.Node("a"), in.Now)
		d := fleet.Plan(in)
		w.nodes.Decided(&in, &d)
		patches, _, err := w.nodes.PodPatches(&in, &d, anyPod)
		if err != nil {
			t.Fatal(err)
		}
		var got corev1.ConditionStatus
		if len(patches) > 0 {
			got = daemonset.NeedUpgrade(patched(t, pod, patches[0].Data)).Status
		}
		if got != tt.want {
			t.Errorf("runtime %s, strategy %q: condition %q, want %q", tt.runtime, tt.strategy, got, tt.want)
		}
	}
}

func TestARequestForARestartIsDoneWhenTheRuntimeIsRestarted(t *testing.T) {
	for runtime, want := range map[string]string{"runc": "Waiting Preparing", "enflame": "Done AtTarget"} {
		w, pod := toolkitOn(runtime)
		in := inputFrom(w)
		in.Settings.Strategy = daemonset.OTA
		node := *w.fleet.Node("a")
		node.Pods[0].Request = &topsv1.UpgradeRequest{Pod: topsv1.NamespacedRef{UID: pod.UID}, Revision: fixture.NewHash, RequestTime: fixture.Ago(0)}
		fleet := rollout.NewFleet(&in)
		fleet.Set(node, in.Now)
		d := fleet.Plan(in)
		a := RequestResults{State: w.State, Fleet: fleet, Input: &in, Decision: &d}
		tasks, _ := a.Tasks(fixture.NodeUpgrade("a", fixture.Request("1", w.Members[0].DaemonSet, pod)))
		if got := string(tasks[0].State) + " " + tasks[0].Reason; got != want {
			t.Errorf("runtime %s: %s, want %s", runtime, got, want)
		}
	}
}

func TestRequestsAreNotTakenWithoutAStrategyThoughRuntimesAreRestarted(t *testing.T) {
	in := otaInput(asking(fixture.Planned("a", fixture.OldHash)))
	in.Settings.Strategy = rollout.RestartsOnly
	tasks, _ := requestResultsOf(in).Tasks(fixture.NodeUpgrade("a", asked("1")))
	if got := tasks[0].Reason; got != reasonNotControlled {
		t.Errorf("it is answered with %s", got)
	}
}
