package observed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestWhatAnAgentIsCapableOf(t *testing.T) {
	before := []string{"prepull", "restart-runtime", "verify-driver", "verify-runtime"}
	for _, tt := range []struct {
		name  string
		agent *topsv1.AgentStatus
		want  rollout.Agent
	}{
		{"an agent that is not known", nil, rollout.Agent{Capabilities: before}},
		{"one from before capabilities were reported", &topsv1.AgentStatus{Version: "1.1"}, rollout.Agent{Version: "1.1", Capabilities: before}},
		{"one that reports fewer", &topsv1.AgentStatus{Version: "1.2", Capabilities: []string{"prepull"}}, rollout.Agent{Version: "1.2", Capabilities: []string{"prepull"}}},
	} {
		upgrade := &topsv1.NodeUpgrade{}
		upgrade.Status.Agent = tt.agent
		if diff := cmp.Diff(tt.want, AgentOf(upgrade)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if diff := cmp.Diff(rollout.Agent{Capabilities: before}, AgentOf(nil)); diff != "" {
		t.Errorf("no NodeUpgrade (-want +got):\n%s", diff)
	}
}

func TestAnAgentIsAskedOnlyForWhatItCanDo(t *testing.T) {
	driver := fixture.ComponentOf("driver")
	upgrade := &topsv1.NodeUpgrade{}
	upgrade.Name, upgrade.Status.Agent = "a", &topsv1.AgentStatus{Version: "1.2", Capabilities: []string{"prepull"}}
	w := seen{members: []memberAndPods{memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash), fixture.PodOn(driver, "b", fixture.OldHash))},
		nodes: []*corev1.Node{fixture.Node("a"), fixture.Node("b")}, upgrades: []*topsv1.NodeUpgrade{upgrade}}.observe()
	in := inputFrom(w)
	if diff := cmp.Diff([]string{"prepull", "verify-driver"}, in.Members[0].Needs); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	d := w.fleet.Plan(in)
	a, _ := d.Verdict("a")
	if b, _ := d.Verdict("b"); a.Reason != rollout.ReasonAgentTooOld || b.Reason != rollout.ReasonPreparing {
		t.Errorf("verdicts %+v and %+v", a, b)
	}
}
