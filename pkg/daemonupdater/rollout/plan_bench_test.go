package rollout

import (
	"fmt"
	"testing"
	"time"
)

// fleetOf is a group of one member on n nodes in ten zones with a budget of 10 %.
func fleetOf(n int, revision string) Input {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = nodeOf(fmt.Sprintf("node-%05d", i), revision)
		nodes[i].Zone = fmt.Sprintf("zone-%d", i%10)
	}
	return inputOf(n/10, nodes...)
}

// halfWay is a fleet half of which is updated, with the whole budget in flight
// but for one node, whose new pod has just become available: one node's event.
func halfWay(n int) Input {
	in := fleetOf(n, oldHash)
	for i := range n / 2 {
		in.Nodes[i].Pods[0].Revision = newHash
	}
	in = in.slots(Plan(in).Ledger.Slots...)
	for i, s := range in.Ledger.Slots {
		node := &in.Nodes[indexOf(in.Nodes, s.Node)]
		node.Pods[0].UID += "-successor"
		node.Pods[0].Revision, node.Pods[0].Available = newHash, i == 0
	}
	in.Now = in.Now.Add(time.Second)
	return in
}

func indexOf(nodes []Node, name string) int {
	for i := range nodes {
		if nodes[i].Name == name {
			return i
		}
	}
	return -1
}

// BenchmarkPlan is one decision over the whole fleet.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		for _, c := range []struct {
			name    string
			in      Input
			started int
		}{
			{"first", fleetOf(n, oldHash), n / 10},
			{"one_event", halfWay(n), 1},
			{"complete", fleetOf(n, newHash), 0},
		} {
			b.Run(fmt.Sprintf("%s/%d_nodes", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if d := Plan(c.in); len(d.Started) != c.started {
						b.Fatalf("started %d nodes, want %d", len(d.Started), c.started)
					}
				}
			})
		}
	}
}
