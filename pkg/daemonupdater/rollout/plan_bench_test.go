package rollout

import (
	"fmt"
	"testing"
	"time"
)

// fleetOf returns a group of one member on n nodes in ten zones.
func fleetOf(n, budget int, revision string) Input {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = nodeOf(fmt.Sprintf("node-%05d", i), revision)
		nodes[i].Zone = fmt.Sprintf("zone-%d", i%10)
	}
	return inputOf(budget, nodes...)
}

// halfWay returns a fleet of which half is updated and the whole budget is in flight: every pod
// in flight is at the target and not available yet.
func halfWay(n, budget int) Input {
	in := fleetOf(n, budget, oldHash)
	for i := range n / 2 {
		in.Nodes[i].Pods[0].Revision = newHash
	}
	in = in.slots(Plan(in).Ledger.Slots...)
	for _, s := range in.Ledger.Slots {
		if s.Queued {
			continue
		}
		replaceOn(&in.Nodes[indexOf(in.Nodes, s.Node)])
	}
	in.Now = in.Now.Add(time.Second)
	return in
}

// replaceOn replaces the pod of a node by a new one.
func replaceOn(node *Node) {
	pod := node.Pods[0]
	pod.UID, pod.Revision, pod.Available = pod.UID+"'", newHash, false
	node.Pods = []Pod{pod}
}

// availableOn makes the pod of a node available.
func availableOn(node *Node) {
	pod := node.Pods[0]
	pod.Available = true
	node.Pods = []Pod{pod}
}

func indexOf(nodes []Node, name string) int {
	for i := range nodes {
		if nodes[i].Name == name {
			return i
		}
	}
	return -1
}

// startedAt returns a different node in flight for each number.
func startedAt(l *Ledger, number int) string {
	for i := number; ; i++ {
		if s := &l.Slots[i%len(l.Slots)]; !s.Queued {
			return s.Node
		}
	}
}

// BenchmarkPlan measures one decision from scratch, which examines all nodes.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		for _, c := range []struct {
			name    string
			in      Input
			started int
		}{
			{"first", fleetOf(n, n/10, oldHash), n / 10},
			{"half_way", halfWay(n, n/10), 0},
			{"complete", fleetOf(n, n/10, newHash), 0},
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

// BenchmarkEvent measures the cost of one node's event with a fleet that is kept: the pod of a
// node in flight becomes available, its slot goes to another node, and that node's pod is
// replaced. The fleet starts over when half of it is updated.
func BenchmarkEvent(b *testing.B) {
	for _, n := range []int{1000, 10000, 100000} {
		for _, c := range []struct {
			name   string
			budget int
		}{{"budget_50", 50}, {"budget_10_percent", n / 10}} {
			budget := c.budget
			b.Run(fmt.Sprintf("%s/%d_nodes", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				first := halfWay(n, budget)
				f, in := NewFleet(&first), first
				events := 0
				for b.Loop() {
					if events++; events%(n/4) == 0 {
						b.StopTimer()
						f, in = NewFleet(&first), first
						b.StartTimer()
					}
					done := *f.Node(startedAt(&in.Ledger, events))
					availableOn(&done)
					f.Set(done, in.Now)
					d := f.Plan(in)
					if len(d.Started) != 1 {
						b.Fatalf("started %d nodes, want 1", len(d.Started))
					}
					next := *f.Node(d.Started[0])
					replaceOn(&next)
					f.Set(next, in.Now)
					in.Ledger = d.Ledger
				}
			})
		}
	}
}
