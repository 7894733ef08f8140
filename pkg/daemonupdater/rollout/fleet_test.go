package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// drawRefinement draws an empty policy, or one with some of its fields set.
func drawRefinement(t *rapid.T) Policy {
	p := Policy{ControlPlane: rapid.SampledFrom([]ControlPlane{ControlPlaneAny, ControlPlaneFirst, ControlPlaneLast}).Draw(t, "control plane")}
	if rapid.Bool().Draw(t, "pools") {
		p.PoolMaxUnavailable = ptr.To(intstr.FromInt32(int32(rapid.IntRange(1, 2).Draw(t, "pool limit"))))
	}
	if rapid.Bool().Draw(t, "waves") {
		p.Waves = []Wave{sizedWave("canary", "1"), {Name: "site", Selector: labels.SelectorFromSet(labels.Set{"site": "a"})}, sizedWave("half", "50%")}
		p.Waves[1].Manual = rapid.Bool().Draw(t, "manual")
		p.Approved = map[string]bool{"site": rapid.Bool().Draw(t, "approved")}
	}
	if rapid.Bool().Draw(t, "returned") {
		p.Returned = 10 * time.Minute
	}
	if rapid.IntRange(0, 3).Draw(t, "window") == 0 {
		p.Window = &Window{Start: time.Duration(rapid.IntRange(0, 23).Draw(t, "opens")) * time.Hour, Length: 8 * time.Hour, Zone: time.UTC}
	}
	return p
}

// drawChange draws the state of a node after an event.
func drawChange(t *rapid.T, in *Input, now time.Time) Node {
	i := rapid.IntRange(0, 12).Draw(t, "changed node")
	n := Node{Name: fmt.Sprintf("n%02d", i), UID: types.UID(fmt.Sprint("u", i)), Zone: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")}
	n.Pool, n.Labels = n.Zone, map[string]string{"site": n.Zone}
	n.ControlPlane = rapid.IntRange(0, 4).Draw(t, "control plane node") == 0
	n.Ready = rapid.IntRange(0, 3).Draw(t, "ready") > 0
	n.ReadySince = now.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "ready since")) * time.Minute)
	n.ReadyEarliest = n.ReadySince
	for m := range in.Members {
		p := drawPod(t, n.Name, m)
		if p.UID != "" && !p.Available && !p.Terminating && rapid.Bool().Draw(t, "soon available") {
			p.AvailableAt = now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "available in")) * time.Minute)
		}
		n.Pods = append(n.Pods, p)
	}
	return n
}

// apply changes the nodes of an input the way Set and Remove change a fleet.
func apply(in *Input, f *Fleet, n Node, gone bool, now time.Time) {
	i := indexOf(in.Nodes, n.Name)
	switch {
	case gone && i >= 0:
		in.Nodes = append(in.Nodes[:i], in.Nodes[i+1:]...)
	case gone:
	case i >= 0:
		in.Nodes[i] = n
	default:
		in.Nodes = append(in.Nodes, n)
	}
	if gone {
		f.Remove(n.Name)
	} else {
		f.Set(n, now)
	}
}

// TestFleetDecidesAsIfNew: a fleet that received every change, with decisions in between, decides
// the same as a new one of the same nodes.
func TestFleetDecidesAsIfNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Policy = drawRefinement(t)
		f := NewFleet(&in)
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			in.Now = in.Now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "minutes")) * time.Minute)
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				apply(&in, f, drawChange(t, &in, in.Now), rapid.IntRange(0, 5).Draw(t, "gone") == 0, in.Now)
			}
			kept, anew := f.Plan(in), Plan(in)
			if diff := cmp.Diff(anew, kept, cmpopts.IgnoreUnexported(Decision{}), cmpopts.IgnoreFields(Decision{}, "Advanced"), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the kept fleet decides otherwise (-anew +kept):\n%s", diff)
			}
			if diff := cmp.Diff(anew.Verdicts(), kept.Verdicts()); diff != "" {
				t.Fatalf("verdicts of the kept fleet differ (-anew +kept):\n%s", diff)
			}
			in.Ledger = kept.Ledger
		}
	})
}

// TestCountsAreThoseOfTheVerdicts: counts kept incrementally equal those of the verdicts on every
// node.
func TestCountsAreThoseOfTheVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Policy = drawRefinement(t)
		for i := range in.Nodes {
			in.Nodes[i].Pool = in.Nodes[i].Zone
		}
		if rapid.Bool().Draw(t, "a node failed and is gone") {
			in.Ledger.Failures = append(in.Ledger.Failures, Failure{Node: "gone", UID: "uid-gone", Targets: []Target{{in.Members[0].Key, in.Members[0].Target}}})
		}
		d := Plan(in)
		gone := len(d.FailedAndGone())
		counts := Counts{Total: len(in.Nodes) + gone, Failed: gone}
		reasons := map[Reason]int{}
		for _, v := range d.Verdicts() {
			switch v.State {
			case Updated:
				counts.Updated++
			case InFlight:
				counts.InFlight++
			case Skipped:
				counts.Skipped++
			case Failed:
				counts.Failed++
			case Pinned:
				counts.Pinned++
			case Pending:
				counts.Pending++
				reasons[v.Reason]++
			case Held:
				counts.Held++
				reasons[v.Reason]++
			}
		}
		waiting := map[Reason]int{}
		for _, w := range d.Waiting {
			waiting[w.Reason] = w.Nodes
			if w.Message == "" || w.State != w.Reason.State() {
				t.Fatalf("waiting %+v, want a message and the state of the reason", w)
			}
		}
		if diff := cmp.Diff(counts, d.Counts); diff != "" {
			t.Fatalf("counts (-of the verdicts +given):\n%s", diff)
		}
		if diff := cmp.Diff(reasons, waiting); diff != "" {
			t.Fatalf("reasons (-of the verdicts +given):\n%s", diff)
		}
	})
}
