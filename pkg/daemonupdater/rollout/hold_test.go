package rollout

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

func held(n Node) Node {
	n.Holds = []daemonset.Hold{{By: daemonset.ByNode, Since: epoch.Add(-time.Hour), Message: "a surgery is going on"}}
	return n
}

// statesOf returns a map from node to state: name, state, name, state, ….
func statesOf(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// inMiddle returns a node of two members, of which only the first is replaced.
func inMiddle(name string) Node {
	return held(nodeOf(name, newHash, oldHash))
}

func TestNothingIsStartedOnANodeThatIsHeld(t *testing.T) {
	a, b := nodeOf("a", oldHash), nodeOf("b", oldHash)
	two := inputOf(2, inMiddle("a"), nodeOf("b", newHash, newHash))
	two.Members = []Member{{Key: "kube-system/driver", Target: newHash}, {Key: "kube-system/exporter", Target: newHash}}
	for _, test := range []struct {
		name    string
		in      Input
		want    said
		changes []string
	}{
		{"others start, and the hold says why it does not", inputOf(2, held(a), b),
			said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"}, States: statesOf("a", "held/NodeHeld", "b", "in-flight/Replacing")}, nil},
		{"a node whose pod is not available either", inputOf(2, held(broken(a))), said{States: statesOf("a", "held/NodeHeld")}, nil},
		{"a node that has asked either", ota(inputOf(2, held(asking(a)))), said{States: statesOf("a", "held/NodeHeld")}, nil},
		{"what is in flight goes on to its end", two.slots(slotOf(inMiddle("a"), time.Minute)),
			said{Delete: []string{"a-1"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing", "b", "updated/AtTarget")}, nil},
		{"a node that is up to date is not held up", inputOf(2, held(nodeOf("a", newHash))), said{States: statesOf("a", "updated/AtTarget")}, nil},
		{"nothing is prepared on it", heavyInput(2, held(heavyNode("a")), heavyNode("b")),
			said{States: statesOf("a", "held/NodeHeld", "b", "pending/Preparing")}, []string{"b:prepare"}},
		{"what is prepared is taken back", heavyInput(2, held(prepared(heavyNode("a")))),
			said{States: statesOf("a", "held/NodeHeld")}, []string{"a:abort op-a"}},
		{"an operation that was granted goes on", heavyInput(2, held(granted(heavyNode("a")))).slots(operating(heavyNode("a"))),
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, nil},
		{"an operation without a slot that is known gets one", heavyInput(2, held(granted(heavyNode("a")))),
			said{Slots: []string{"a"}, States: statesOf("a", "in-flight/Operating")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
}

func TestAHeldNodeReportsSinceWhenAndWhy(t *testing.T) {
	d := Plan(inputOf(2, held(nodeOf("a", oldHash))))
	v, _ := d.Verdict("a")
	for _, word := range []string{epoch.Add(-time.Hour).UTC().Format(time.RFC3339), "a surgery is going on", "release it"} {
		if !strings.Contains(v.Message, word) {
			t.Errorf("the message %q does not say %q", v.Message, word)
		}
	}
	if len(d.Waiting) != 1 || d.Waiting[0].Reason != ReasonNodeHeld || d.Counts.Held != 1 || d.ETA() != 0 {
		t.Errorf("waiting %+v, %d held, ETA %s", d.Waiting, d.Counts.Held, d.ETA())
	}
}

func TestAQueuedNodeThatIsHeldIsNotStarted(t *testing.T) {
	in := inputOf(1, fleetInVersions(3)...)
	in.Ledger = Plan(in).Ledger
	var queued string
	for _, s := range in.Ledger.Slots {
		if s.Queued {
			queued = s.Node
		}
	}
	if queued == "" {
		t.Fatalf("no node is queued: %+v", in.Ledger.Slots)
	}
	for i := range in.Nodes {
		if in.Nodes[i].Name == queued {
			in.Nodes[i] = held(in.Nodes[i])
		} else {
			in.Nodes[i] = nodeOf(in.Nodes[i].Name, newHash) // now the budget has room
		}
	}
	d := Plan(in)
	if v, _ := d.Verdict(queued); v.Reason != ReasonNodeHeld || len(d.Delete) > 0 || len(d.Started) > 0 {
		t.Errorf("node %s is %+v, deleted %v, started %v", queued, v, d.Delete, d.Started)
	}
}

func TestAWaveThatWaitsForAHoldSaysSo(t *testing.T) {
	in := inputOf(1, held(nodeOf("a", oldHash)), nodeOf("b", newHash), nodeOf("c", oldHash))
	in.Policy.Waves = []Wave{{Name: "first", Selector: labels.SelectorFromSet(labels.Set{"wave": "first"})}}
	for i := range 2 {
		in.Nodes[i].Labels = map[string]string{"wave": "first"}
	}
	d := Plan(in)
	if v, _ := d.Verdict("c"); v.Message != "waits for wave first: 1 of 2 nodes are updated; on hold: 1" {
		t.Errorf("it waits as: %s", v.Message)
	}
}
