package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ended returns an updated node whose new pod has been available for some time.
func ended(name string, ago time.Duration) Node {
	return withPod(nodeOf(name, newHash), func(p *Pod) {
		p.AvailableSince, p.AvailableWritten = epoch.Add(-ago), epoch.Add(-ago-3*time.Minute) // the clock of its kubelet is behind
	})
}

// renewed returns a node whose Lease was renewed some time after its pod was available.
func renewed(n Node, after time.Duration) Node {
	n.Renewed = n.Pods[0].AvailableWritten.Add(after)
	return n
}

func TestNodesStartOnceThoseBeforeThemAreProven(t *testing.T) {
	const s = time.Second
	fresh := []Node{nodeOf("x", oldHash), nodeOf("y", oldHash), nodeOf("z", oldHash)}
	tests := []struct {
		name    string
		limit   int
		nodes   []Node
		started int // at this revision so far
		change  func(*Input)
		want    []string
	}{
		{"none starts while one budget of nodes is on probation", 2, []Node{ended("a", s), ended("b", s)}, 2, nil, nil},
		{"a Lease that is renewed proves a node", 2, []Node{renewed(ended("a", 9*s), 5*s), ended("b", s)}, 2, nil, []string{"x", "y"}},
		{"one that was renewed before does not", 2, []Node{renewed(ended("a", 9*s), -s), ended("b", s)}, 2, nil, nil},
		{"nor one within the second that the pod's time is rounded down by", 2, []Node{renewed(ended("a", 9*s), s/2), ended("b", s)}, 2, nil, nil},
		{"each proven node makes room for one more", 4, []Node{renewed(ended("a", 9*s), 5*s), renewed(ended("b", 9*s), 5*s), ended("c", s), ended("d", s), ended("e", s)}, 5, nil, []string{"x", "y", "z"}},
		{"a node without a Lease is proven when its probation is over", 2, []Node{ended("a", 2*time.Minute), ended("b", s)}, 2, nil, []string{"x", "y"}},
		{"nodes of another version say nothing", 2, []Node{ended("a", s), ended("b", s)}, 100, func(in *Input) { in.Ledger.Revision = "another" }, nil},
		{"nodes that were lost on probation make no room", 2, []Node{offlineAfterUpdate("a", time.Minute), ended("b", s)}, 2, nil, nil},
		{"without a probation all start", 2, []Node{ended("a", s), ended("b", s)}, 2, func(in *Input) { in.Deadlines.Probation = 0 }, []string{"x", "y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputOf(tt.limit, append(tt.nodes, fresh...)...)
			in.Ledger.Started, in.Ledger.LastStart = tt.started, epoch.Add(-time.Minute)
			if tt.change != nil {
				tt.change(&in)
			}
			d := Plan(in)
			slices.Sort(d.Started)
			if diff := cmp.Diff(tt.want, d.Started); diff != "" {
				t.Errorf("started (-want +got):\n%s%+v", diff, d.Waiting)
			}
			if tt.want == nil && (!d.AwaitsHeartbeats || d.Recheck > HeartbeatPoll) {
				t.Errorf("awaits heartbeats: %v, recheck in %s", d.AwaitsHeartbeats, d.Recheck)
			}
		})
	}
}

// A rollout without failures ends as soon as its Leases are read, whatever gets its slot back.
func TestARolloutStartsSlowly(t *testing.T) {
	var nodes []Node
	for i := range 60 {
		nodes = append(nodes, nodeOf(fmt.Sprintf("n%02d", i), oldHash))
	}
	in := inputOf(4, nodes...)
	in.Deadlines.Probation = time.Hour
	f := NewFleet(&in)
	var perHeartbeat []int
	for range 6 {
		started := 0
		for {
			d := f.Plan(in)
			in.Ledger = d.Ledger
			started += len(d.Started)
			for _, name := range d.Started {
				f.Set(withPod(ended(name, 0), func(p *Pod) { p.UID = "new-" + p.UID }), in.Now)
			}
			if len(d.Started) == 0 {
				break
			}
		}
		perHeartbeat = append(perHeartbeat, started)
		for _, name := range f.OnProbation() {
			f.Renewed(name, in.Now, in.Now)
		}
	}
	if diff := cmp.Diff([]int{4, 8, 16, 32, 0, 0}, perHeartbeat); diff != "" {
		t.Errorf("nodes started between two heartbeats (-want +got):\n%s", diff)
	}
}

// In a preview no node fails, and every node proves that it lives: nodes do not wait for it.
func TestAPreviewDoesNotWaitForHeartbeats(t *testing.T) {
	in := inputOf(1, ended("a", time.Second), nodeOf("x", oldHash), nodeOf("y", oldHash))
	in.Ledger.Usual = 5 * time.Second
	if took := Preview(in).Took; took != 10*time.Second {
		t.Errorf("two nodes of 5 s take %s", took)
	}
}
