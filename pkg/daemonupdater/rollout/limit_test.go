package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// twoWaves returns an input with a canary wave, the first node by hash, which soaks, and a second
// wave with the rest.
func twoWaves(nodes ...Node) Input {
	return inputOf(3, nodes...).withPolicy(Policy{Waves: []Wave{
		{Name: "canary", Size: ptr.To(intstr.FromInt32(1)), Soak: time.Hour}, {Name: "rest", Size: ptr.To(intstr.FromString("100%"))}}})
}

// limitedBy limits an upgrade by this annotation.
func limitedBy(in Input, only string) Input {
	in.Settings.Only = only
	return in
}

func TestAWaveDoesNotWaitForWhatTheUpgradeLeavesOut(t *testing.T) {
	a, b, c := nodeOf("a", oldHash), nodeOf("b", oldHash), nodeOf("c", oldHash)
	canary := map[string]Node{"a": a, "b": b, "c": c}[Plan(twoWaves(a, b, c)).Started[0]]
	if canary.Name != "a" {
		t.Fatalf("the canary is %s", canary.Name)
	}
	both := inputOf(1)
	both.Members = []Member{{Key: "kube-system/driver", Target: newHash, LeftOut: true}, {Key: "kube-system/exporter", Target: newHash}}
	component := func(nodes ...Node) Input {
		in := twoWaves(nodes...)
		in.Members = both.Members
		return limitedBy(in, "components=exporter")
	}
	for _, tt := range []struct {
		name    string
		in      Input
		started []string
		states  map[string]string
	}{
		{"a wave that is left out as a whole", limitedBy(twoWaves(leftOutOf(a), b, leftOutOf(c)), "nodes=b"), []string{"b"},
			statesOf("a", "held/LeftOut", "b", "in-flight/Replacing", "c", "held/LeftOut")},
		{"a wave that is not begun", limitedBy(twoWaves(a, b, leftOutOf(c)), "nodes=a,b"), []string{"a"},
			statesOf("a", "in-flight/Replacing", "b", "held/WaveNotReached", "c", "held/LeftOut")},
		{"a wave whose only node in it is offline", limitedBy(twoWaves(offline(a), b, leftOutOf(c)), "nodes=a,b"), nil,
			statesOf("a", "skipped/NodeOffline", "b", "held/WaveNotReached", "c", "held/LeftOut")},
		{"a wave of which the components are done that it is limited to", component(nodeOf("a", oldHash, newHash), nodeOf("b", oldHash, oldHash)), nil,
			statesOf("a", "held/LeftOut", "b", "held/Soaking")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Plan(tt.in)
			if diff := cmp.Diff(tt.started, d.Started, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.states, say(d).States); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// A wave that a limited upgrade passed is not passed for the whole fleet.
func TestAWaveIsPassedForItsLimitOnly(t *testing.T) {
	a, b, c := nodeOf("a", oldHash), nodeOf("b", oldHash), nodeOf("c", oldHash)
	in := limitedBy(twoWaves(leftOutOf(a), b, leftOutOf(c)), "nodes=b")
	in.Ledger = Plan(in).Ledger
	if in.Ledger.Waves[0].Completed.IsZero() || in.Ledger.Limit != "nodes=b" {
		t.Fatalf("the ledger has %+v", in.Ledger)
	}
	all := twoWaves(a, b, c)
	all.Ledger, all.Now = in.Ledger, in.Now.Add(2*time.Hour)
	if d := Plan(all); len(d.Started) != 1 || d.Started[0] != "a" || !d.Ledger.Waves[0].Completed.IsZero() || d.Ledger.Limit != "" {
		t.Errorf("without the limit %v are started, waves %+v; want the canary", d.Started, d.Ledger.Waves)
	}
}

func TestALongLimitIsRememberedByItsHash(t *testing.T) {
	long := "nodes=" + strings.Repeat("node-1,", 100)
	if got := remembered(long + "a"); len(got) > maxLimit || got == remembered(long+"b") || !strings.HasPrefix(got, "nodes=node-1") {
		t.Errorf("remembered as %q", got)
	}
	if remembered("nodes=a") != "nodes=a" {
		t.Error("a short one is not remembered as it is")
	}
}

// A node that is kept cordoned and outside of the limit uses the budget, and says why.
func TestANodeOutsideTheLimitThatIsKeptCordoned(t *testing.T) {
	for name, hash := range map[string]string{"at its target": newHash, "outdated": oldHash} {
		t.Run(name, func(t *testing.T) {
			kept := leftOutOf(withJob(nodeOf("b", hash, newHash), &Operation{ID: "op-b", Ours: true, Granted: true, KeptCordoned: true, Message: "there is a newer revision"}))
			d := Plan(limitedBy(heavyInput(1, heavyNode("a"), kept), "nodes=a"))
			v, _ := d.Verdict("b")
			if len(d.Started) != 0 || v.Reason == ReasonLeftOut || v.Message != "there is a newer revision" {
				t.Errorf("%v starts, b: %+v", d.Started, v)
			}
		})
	}
}
