package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
)

// canaryOf returns a policy whose wave canary has the nodes with a label.
func canaryOf(label string) Policy {
	return Policy{Waves: []Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{label: "early"})}}}
}

func TestAWaveThatHadNoNodesIsNotPassedOnceItHasSome(t *testing.T) {
	in := inputOf(3, nodeOf("a", oldHash), nodeOf("b", oldHash), labeled(nodeOf("f", oldHash), "ring", "early")).withPolicy(canaryOf("rign"))
	plan := func(paused bool) (d Decision, canary WaveProgress) {
		in.Settings.Paused, in.Now = paused, in.Now.Add(time.Hour)
		d = Plan(in)
		in.Ledger = d.Ledger
		return d, d.Ledger.Waves[0]
	}
	_, empty := plan(true)
	if _, canary := plan(true); empty.Completed.IsZero() || canary != empty {
		t.Errorf("wave %+v, then %+v, want that it is passed while it has no nodes", empty, canary)
	}
	in = in.withPolicy(canaryOf("ring"))
	plan(true)
	d, canary := plan(false)
	if diff := cmp.Diff([]string{"f"}, d.Started); diff != "" || !canary.Completed.IsZero() {
		t.Errorf("wave %+v, started (-want +got):\n%s", canary, diff)
	}
	in.Nodes[2] = labeled(nodeOf("f", newHash), "ring", "early")
	if _, canary = plan(false); !canary.Completed.Equal(in.Now) {
		t.Errorf("wave %+v, want that it is complete since %s", canary, in.Now)
	}
}

// A passed wave whose selector is edited stays passed at this revision. Under another name it goes first.
func TestAWaveThatIsRedefinedGoesFirstUnderAnotherName(t *testing.T) {
	done, later := labeled(nodeOf("f", newHash), "first", "early"), labeled(nodeOf("b", oldHash), "second", "early")
	in := inputOf(3, nodeOf("a", oldHash), later, done).paused().withPolicy(canaryOf("first"))
	in.Ledger = Plan(in).Ledger
	in.Settings.Paused = false
	for name, want := range map[string][]string{"canary": {"a", "b"}, "canary-2": {"b"}} {
		policy := canaryOf("second")
		policy.Waves[0].Name = name
		if diff := cmp.Diff(want, Plan(in.withPolicy(policy)).Started); diff != "" {
			t.Errorf("wave %s: started (-want +got):\n%s", name, diff)
		}
	}
}

// A pool may be scaled to zero for the night: its wave stays passed, and does not soak again.
func TestAPassedWaveStaysPassedWhenItsNodesAreGoneForAWhile(t *testing.T) {
	a, f := nodeOf("a", oldHash), labeled(nodeOf("f", newHash), "ring", "early")
	policy := canaryOf("ring")
	policy.Waves[0].Soak = 90 * time.Minute
	in := inputOf(3).withPolicy(policy)
	var started []string
	for _, nodes := range [][]Node{{a, f}, {a}, {a, offline(f)}} {
		in.Nodes = nodes
		d := Plan(in)
		in.Ledger, started = d.Ledger, d.Started
		in.Ledger.Decided = time.Time{} // else the soak does not count the hour in which nothing is decided
		if canary := d.Ledger.Waves[0]; !canary.Completed.Equal(epoch) || canary.Total != 1 {
			t.Errorf("at %s the wave is %+v, want that it is complete with one node since %s", in.Now, canary, epoch)
		}
		in.Now = in.Now.Add(time.Hour)
	}
	if diff := cmp.Diff([]string{"a"}, started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
}
