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

// drawKept draws which tasks of a mission are kept: those of some hosts, targets, or targets on hosts, and some actions.
func drawKept(t *rapid.T, m Mission) func(Task) bool {
	tasks := tasksOf(m)
	some := func(by string, of func(Task) string) func(Task) bool {
		if len(tasks) == 0 || rapid.Bool().Draw(t, "any "+by) {
			return func(Task) bool { return true }
		}
		var kept []string
		for _, task := range rapid.SliceOfN(rapid.SampledFrom(tasks), 0, len(tasks)).Draw(t, by) {
			kept = append(kept, of(task))
		}
		return func(task Task) bool { return slices.Contains(kept, of(task)) }
	}
	host, target := some("host", func(t Task) string { return t.Host }), some("target", func(t Task) string { return t.Target })
	instance, action := some("instance", func(t Task) string { return t.Host + " " + t.Target }), some("action", func(t Task) string { return t.Action })
	return func(task Task) bool { return host(task) && target(task) && instance(task) && action(task) }
}
