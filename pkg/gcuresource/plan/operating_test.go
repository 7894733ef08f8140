package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestNodesWithAnOperationThatIsNotOver(t *testing.T) {
	const rollout = "kube-system/gpu"
	shown := func(phase topsv1.OperationPhase, held bool) topsv1.NodeUpgrade {
		return topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{Operation: &topsv1.OperationStatus{ID: "op", Rollout: rollout, Phase: phase, Held: held}}}
	}
	asked := func(of topsv1.NodeUpgrade, id string) topsv1.NodeUpgrade {
		of.Spec.Operation = &topsv1.NodeOperation{ID: id, Rollout: rollout}
		return of
	}
	foreign := asked(shown(topsv1.OperationRunning, false), "op")
	foreign.Spec.Operation.Rollout, foreign.Status.Operation.Rollout = "kube-system/other", "kube-system/other"
	ended := asked(topsv1.NodeUpgrade{}, "op")
	ended.Status.History = []topsv1.OperationRecord{{ID: "op"}}
	for name, tc := range map[string]struct {
		of   topsv1.NodeUpgrade
		want bool
	}{
		"it runs":                               {asked(shown(topsv1.OperationRunning, false), "op"), true},
		"it releases the node":                  {shown(topsv1.OperationReleasing, false), true},
		"it failed and keeps the node cordoned": {asked(shown(topsv1.OperationFailed, true), "op"), true},
		"it is yet to begin":                    {asked(topsv1.NodeUpgrade{}, "op"), true},
		"another one is yet to begin":           {asked(shown(topsv1.OperationDone, false), "next"), true},
		"it is done":                            {asked(shown(topsv1.OperationDone, false), "op"), false},
		"it failed and released the node":       {shown(topsv1.OperationFailed, false), false},
		"only the history has it":               {ended, false},
		"it is of another rollout":              {foreign, false},
		"there is none":                         {topsv1.NodeUpgrade{}, false},
	} {
		tc.of.Name = "node-1"
		var want []string
		if tc.want {
			want = []string{"node-1"}
		}
		nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}, {ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}}
		if diff := cmp.Diff(want, Operating([]topsv1.NodeUpgrade{tc.of}, rollout, nodes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := Operating([]topsv1.NodeUpgrade{tc.of}, rollout, nodes[:1]); got != nil {
			t.Errorf("%s, but the Node is gone: waits for %v", name, got)
		}
	}
}
