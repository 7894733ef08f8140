package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

// Groups share nodes. What another group only prepares, or keeps out of service, holds nothing of
// this one but what it must.
func TestAGroupIsNotHeldByAnother(t *testing.T) {
	theirs := func(n Node, job Operation) Node { return withJob(n, &job) }
	ungranted := theirs(nodeOf("a", oldHash), Operation{ID: "op-theirs", Prepared: true, Message: "waits for its grant"})
	atWork := theirs(nodeOf("a", oldHash), Operation{ID: "op-theirs", Granted: true, Message: "drains"})
	kept := theirs(nodeOf("a", oldHash), Operation{ID: "op-theirs", Granted: true, KeptCordoned: true, Message: "in quarantine"})
	without := kept
	without.Pods = []Pod{{Member: 0}}
	b, c := nodeOf("b", oldHash), heavyNode("c")
	waves := inputOf(1, theirs(nodeOf("a", newHash), *kept.Operation), kept, b)
	waves.Nodes[1].Name, waves.Nodes[1].UID = "d", "uid-d"
	waves = waves.withPolicy(Policy{Waves: []Wave{{Name: "first", Selector: labels.SelectorFromSet(labels.Set{"first": "yes"})}}})
	waves.Nodes[0].Labels, waves.Nodes[1].Labels = map[string]string{"first": "yes"}, map[string]string{"first": "yes"}
	paused := heavyInput(1, prepared(c))
	paused.Settings.Paused = true
	halted := heavyInput(1, prepared(c))
	halted.Ledger.Failures = []Failure{{Node: "x", Reason: ReasonNodeLost, Targets: targetsOf(&halted)}, {Node: "y", Reason: ReasonNodeLost, Targets: targetsOf(&halted)}}
	for _, tt := range []struct {
		name    string
		in      Input
		started []string
		changes []string
	}{
		{"a light change goes to a node on which another group prepares an operation", inputOf(1, ungranted), []string{"a"}, nil},
		{"not to one on which it is at work", inputOf(1, atWork), nil, nil},
		{"a node that another group keeps out of service does not use the budget", inputOf(1, kept, b), []string{"b"}, nil},
		{"though it keeps pods of this group from it too", inputOf(1, without, b), []string{"b"}, nil},
		{"nor does it hold a wave", waves, []string{"b"}, nil},
		{"a group that is paused takes its prepared operations back", paused, nil, []string{"c:abort op-c"}},
		{"and so does one that is halted", halted, nil, []string{"c:abort op-c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Plan(tt.in)
			if diff := cmp.Diff(tt.started, d.Started); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.changes, operationChangesOf(d)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func targetsOf(in *Input) []Target {
	g := groupOf(in)
	return g.targetsOf(nil)
}
