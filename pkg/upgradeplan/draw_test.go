package upgradeplan

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// draw is a random book with any order, grouping and needs, and nodes for it.
type draw struct {
	book  LogicBook
	nodes []Node
	size  int
}

func drawPlan(t *rapid.T) draw {
	d := draw{book: drawBook(t), size: rapid.IntRange(0, 4).Draw(t, "size")}
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		n := Node{
			Name:         fmt.Sprint("n", i),
			ControlPlane: rapid.Bool().Draw(t, "control plane"),
			Wave:         rapid.IntRange(0, 2).Draw(t, "wave"),
		}
		for _, target := range d.book.Targets {
			if target.OfNode || rapid.IntRange(0, 3).Draw(t, "deployed") == 0 {
				continue
			}
			n.Deployed = append(n.Deployed, target.Name)
			if rapid.Bool().Draw(t, "changed") {
				n.Changed = append(n.Changed, target.Name)
			}
		}
		d.nodes = append(d.nodes, n)
	}
	return d
}

func drawBook(t *rapid.T) LogicBook {
	if rapid.IntRange(0, 3).Draw(t, "which book") == 0 {
		book := DefaultBook()
		book.ControlPlane = rapid.SampledFrom([]Place{"", Any, First, Last}).Draw(t, "place")
		return book
	}
	book := LogicBook{ControlPlane: rapid.SampledFrom([]Place{"", Any, First, Last}).Draw(t, "place")}
	var actions []string
	for i := range rapid.IntRange(1, 4).Draw(t, "actions") {
		a := Action{Name: fmt.Sprint("a", i)}
		a.GroupBy = rapid.SampledFrom([]GroupBy{"", GroupByHost, GroupByTask}).Draw(t, "groupBy")
		book.Actions = append(book.Actions, a)
		actions = append(actions, a.Name)
	}
	components := []string{"c0", "c1", "c2"}
	for _, name := range append([]string{"node"}, components...) {
		target := Target{Name: name, OfNode: name == "node"}
		if !target.OfNode {
			target.Disruption = rapid.SampledFrom(disruptions).Draw(t, "disruption")
		}
		for range rapid.IntRange(1, 2).Draw(t, "needs") {
			target.Needs = append(target.Needs, Need{
				Actions:    rapid.SliceOfNDistinct(rapid.SampledFrom(actions), 1, len(actions), rapid.ID).Draw(t, "needed"),
				Changed:    rapid.SliceOfDistinct(rapid.SampledFrom(components), rapid.ID).Draw(t, "because of"),
				Disruption: rapid.SampledFrom(append(slices.Clone(disruptions), "", "", "")).Draw(t, "from"),
			})
		}
		book.Targets = append(book.Targets, target)
	}
	var pairs []pair
	for _, target := range book.Targets {
		for _, a := range target.actions() {
			pairs = append(pairs, pair{target.Name, a})
		}
	}
	for _, p := range rapid.Permutation(pairs).Draw(t, "order") {
		last := len(book.Steps) - 1
		if last >= 0 && book.Steps[last].Action == p.action {
			book.Steps[last].Targets = append(book.Steps[last].Targets, p.target)
			continue
		}
		book.Steps = append(book.Steps, Step{Action: p.action, Targets: []string{p.target}})
	}
	return book
}

func (d draw) plan(t *rapid.T) Mission {
	m, err := Plan(d.book, d.nodes, d.size)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func drawSelection(t *rapid.T, m Mission, name string) Selection {
	var s Selection
	tasks := tasksOf(m)
	if len(tasks) == 0 {
		return s
	}
	some := func(of string) []Task {
		return rapid.SliceOfN(rapid.SampledFrom(tasks), 0, len(tasks)).Draw(t, name+of)
	}
	if rapid.Bool().Draw(t, name+"by host") {
		s.Hosts = []string{}
		for _, task := range some("hosts") {
			s.Hosts = append(s.Hosts, task.Host)
		}
	}
	if rapid.Bool().Draw(t, name+"by target") {
		s.Targets = []string{}
		for _, task := range some("targets") {
			s.Targets = append(s.Targets, task.Target)
		}
	}
	if rapid.Bool().Draw(t, name+"by instance") {
		s.Instances = []Instance{}
		for _, task := range some("instances") {
			s.Instances = append(s.Instances, Instance{task.Host, task.Target})
		}
	}
	if rapid.Bool().Draw(t, name+"by action") {
		s.Actions = []string{}
		for _, task := range some("actions") {
			s.Actions = append(s.Actions, task.Action)
		}
	}
	return s
}
