package rollout

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// oldAgent gives a node an agent that cannot verify the driver.
func oldAgent(n Node) Node {
	n.Agent = Agent{Version: "1.2", Capabilities: []string{"prepull"}}
	return n
}

func newAgent(n Node) Node {
	n.Agent = Agent{Version: "1.3", Capabilities: []string{"prepull", "verify-driver"}}
	return n
}

// needing is heavyInput with an operation that needs more of the agent than oldAgent can do.
func needing(limit int, nodes ...Node) Input {
	in := heavyInput(limit, nodes...)
	in.Members[0].Needs = []string{"prepull", "verify-driver"}
	return in
}

func TestANodeWhoseAgentIsTooOldGetsNoOperation(t *testing.T) {
	a, b := oldAgent(heavyNode("a")), newAgent(heavyNode("b"))
	light := needing(2, oldAgent(nodeOf("a", newHash, oldHash)))
	waves := needing(2, a, newAgent(heavyNode("b")), newAgent(nodeOf("c", newHash, newHash))).withPolicy(Policy{Waves: []Wave{{Name: "canary", Size: ptr.To(intstr.FromInt32(2))}, {Name: "rest", Size: ptr.To(intstr.FromString("100%"))}}})
	for _, test := range []struct {
		name    string
		in      Input
		want    said
		changes []string
	}{
		{"others go on", needing(2, a, b),
			said{States: statesOf("a", "held/AgentTooOld", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"with a budget of one too", needing(1, a, b),
			said{States: statesOf("a", "held/AgentTooOld", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"those of later waves too", waves,
			said{States: statesOf("a", "held/AgentTooOld", "b", "pending/Preparing", "c", "updated/AtTarget")}, []string{"b:prepare"}},
		{"what is prepared is taken back", needing(2, prepared(a)),
			said{States: statesOf("a", "held/AgentTooOld")}, []string{"a:abort op-a"}},
		{"an operation that was granted goes on", needing(2, granted(a)).slots(operating(a)),
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, nil},
		{"an operation without a slot that is known gets one", needing(2, granted(a)),
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, nil},
		{"a node that is kept cordoned waits for the agent", needing(2, oldAgent(withJob(nodeOf("a", newHash, newHash), &Operation{ID: "x", Ours: true, KeptCordoned: true}))),
			said{States: statesOf("a", "held/AgentTooOld")}, nil},
		{"a change without an operation is made", light,
			said{Started: []string{"a"}, Delete: []string{"a-1"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
	d := Plan(needing(2, a))
	v, _ := d.Verdict("a")
	if want := "the node agent 1.2 on node a cannot do verify-driver, which the operation needs: upgrade the node agent"; v.Message != want {
		t.Errorf("message %q, want %q", v.Message, want)
	}
}

func TestANodeGoesOnWhenItsAgentIsUpgraded(t *testing.T) {
	in := needing(1, oldAgent(heavyNode("a")))
	f := NewFleet(&in)
	in.Ledger = f.Plan(in).Ledger
	in.Now = in.Now.Add(time.Minute)
	f.Set(newAgent(heavyNode("a")), in.Now)
	if got := operationChangesOf(f.Plan(in)); len(got) != 1 || got[0] != "a:prepare" {
		t.Errorf("changes %v", got)
	}
}
