package display

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	world "github.com/topsops/gcu-operator/test/fixture"
)

func TestANodeIsUpdatedWithEvidenceOnly(t *testing.T) {
	early := topsv1.OperationRecord{ID: "x", Phase: topsv1.OperationAborted, Reason: "Superseded", Touched: true, EndTime: world.Ago(0),
		Result: topsv1.OperationResult{Undo: []string{"a_toolkit_replace"}}}
	restarted := topsv1.OperationRecord{ID: "y", Phase: topsv1.OperationDone, Restarted: true, EndTime: world.Ago(0)}
	for _, tt := range []struct {
		name, revision, runtime string
		strategy                string
		restarts                *bool
		history                 []topsv1.OperationRecord
		waiting                 rollout.Reason
		want                    string
	}{
		{"all is well", world.NewHash, "enflame", "OTA", nil, nil, "", "updated AtTarget"},
		{"a restart is needed", world.NewHash, "runc", "OTA", nil, nil, rollout.ReasonBudgetExhausted, "pending BudgetExhausted"},
		{"by an administrator", world.NewHash, "runc", "OTA", ptr.To(false), nil, rollout.ReasonLeftToAdministrator, "held LeftToAdministrator"},
		{"something sets it back", world.NewHash, "runc", "OTA", nil, []topsv1.OperationRecord{restarted}, rollout.ReasonRuntimeSetBack, "pending RuntimeSetBack"},
		{"it is asked for, because a pod uses a card", world.NewHash, "runc", "OTA", nil, []topsv1.OperationRecord{}, rollout.ReasonAwaitingRequest, "held AwaitingRequest"},
		{"an operation ended early", world.NewHash, "enflame", "OTA", nil, []topsv1.OperationRecord{early}, rollout.ReasonBudgetExhausted, "pending BudgetExhausted"},
		{"without a strategy that does not matter", world.NewHash, "enflame", "RestartsOnly", nil, []topsv1.OperationRecord{early}, "", "updated AtTarget"},
		{"without a strategy outdated pods stay", world.OldHash, "runc", "RestartsOnly", nil, nil, rollout.ReasonBudgetExhausted, "outdated NoUpdateStrategy"},
		{"and a restart is needed", world.NewHash, "runc", "RestartsOnly", nil, nil, rollout.ReasonBudgetExhausted, "pending BudgetExhausted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := world.ComponentOf("toolkit")
			u := world.NodeUpgrade("a")
			u.Status.Host = &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: tt.runtime}}
			u.Status.Agent, u.Status.History = &topsv1.AgentStatus{RestartsRuntime: tt.restarts}, tt.history
			dro := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "fleet"}}}
			dro.Status.Strategy = tt.strategy
			u.Status.Operation = &topsv1.OperationStatus{ID: "z", Rollout: "/", Phase: topsv1.OperationRunning, InUse: tt.waiting == rollout.ReasonAwaitingRequest}
			if !u.Status.Operation.InUse {
				u.Status.Operation = nil
			}
			if tt.waiting != "" {
				dro.Status.Waiting = []topsv1.WaitingNote{{Reason: string(tt.waiting), Nodes: 1}}
			}
			f := &Fleet{Resource: &topsv1.GcuResource{}, Rollout: dro, DaemonSets: []appsv1.DaemonSet{*ds}, Now: world.Epoch,
				Pods: []corev1.Pod{*world.PodOn(ds, "a", tt.revision)}, Nodes: []corev1.Node{*world.Node("a")}, NodeUpgrades: []topsv1.NodeUpgrade{*u}}
			for _, r := range world.RevisionsOf(ds, world.OldHash, world.NewHash) {
				f.Revisions = append(f.Revisions, *r)
			}
			n := NodesOf(f)[0]
			if got := n.State + " " + n.Reason; got != tt.want {
				t.Errorf("%s, want %s; %q", got, tt.want, n.Message)
			}
		})
	}
}

func TestANodeWhosePluginHasNoCardsIsNotUpdated(t *testing.T) {
	for offered, want := range map[string]string{"0": "pending BudgetExhausted", "8": "updated AtTarget"} {
		ds, node, u := world.ComponentOf("devicePlugin"), world.Node("a"), world.NodeUpgrade("a")
		pod := world.PodOn(ds, "a", world.NewHash)
		pod.Status.StartTime = ptr.To(world.Ago(time.Hour))
		node.Status.Allocatable = corev1.ResourceList{"enflame.com/gcu": resource.MustParse(offered)}
		u.Status.Host = &topsv1.HostReport{Devices: ptr.To[int32](8), Runtime: &topsv1.RuntimeReport{Engine: "containerd", Default: "enflame", StartTime: ptr.To(world.Ago(time.Minute))}}
		dro := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "fleet"}}}
		dro.Status.Waiting = []topsv1.WaitingNote{{Reason: string(rollout.ReasonBudgetExhausted), Nodes: 1}}
		f := &Fleet{Resource: &topsv1.GcuResource{}, Rollout: dro, DaemonSets: []appsv1.DaemonSet{*ds}, Now: world.Epoch,
			Pods: []corev1.Pod{*pod}, Nodes: []corev1.Node{*node}, NodeUpgrades: []topsv1.NodeUpgrade{*u}}
		for _, r := range world.RevisionsOf(ds, world.OldHash, world.NewHash) {
			f.Revisions = append(f.Revisions, *r)
		}
		if n := NodesOf(f)[0]; n.State+" "+n.Reason != want {
			t.Errorf("it offers %s cards: %s %s, want %s; %q", offered, n.State, n.Reason, want, n.Message)
		}
	}
}

// A denied write waits for a person from its beginning; what merely takes its time is shown once it took long.
func TestANodeWhoseWriteIsDeniedIsStuckAtOnce(t *testing.T) {
	for step, stuck := range map[string]bool{"DeletionDenied": true, "FenceDenied": true, "OperationDenied": true, "NodeLost": true, "Replacing": false} {
		slot := &topsv1.NodeSlot{Node: "n", Step: step, Since: world.Ago(0)}
		if n := inFlight(&topsv1.DaemonRollout{}, slot, nil, world.Epoch); n.Stuck != stuck || n.Reason != step || stuck && n.Message == "" {
			t.Errorf("%s: %+v", step, n)
		}
	}
}
