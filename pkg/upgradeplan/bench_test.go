package upgradeplan

import (
	"fmt"
	"testing"
)

// tenComponents returns the default book with three more light components, so that a node has
// ten.
func tenComponents() (LogicBook, []string) {
	book := DefaultBook()
	last := len(book.Steps) - 3
	for _, name := range []string{"nodeExporter", "configManager", "agent"} {
		book.Targets = append(book.Targets, Target{Name: name, Disruption: ReplacePod, Needs: light()})
		book.Steps[last].Targets = append(book.Steps[last].Targets, name)
	}
	var components []string
	for _, t := range book.Targets {
		if !t.OfNode {
			components = append(components, t.Name)
		}
	}
	return book, components
}

// fleetOf returns n nodes with every component of the default book except the sharing plugin.
func fleetOf(n int, changed ...string) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{
			Name:     fmt.Sprintf("n%05d", i+1),
			Deployed: []string{TargetNFD, TargetDriver, TargetToolkit, TargetDevicePlugin, TargetExporter, TargetGFD},
			Changed:  changed,
		}
	}
	return nodes
}

func largeFleet(n int) (LogicBook, []Node) {
	book, components := tenComponents()
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("gcu-node-%05d", i), ControlPlane: i < 3, Wave: i * 4 / n, Deployed: components, Changed: components}
	}
	return book, nodes
}

// BenchmarkGenerate10000Nodes measures a whole plan: tasks, batches of a tenth, order.
func BenchmarkGenerate10000Nodes(b *testing.B) {
	book, nodes := largeFleet(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if m := mustPlan(b, book, nodes, 1000); len(m) == 0 {
			b.Fatal("the plan is empty")
		}
	}
}

func BenchmarkCut10000Nodes(b *testing.B) {
	book, nodes := largeFleet(10_000)
	m := mustPlan(b, book, nodes, 1000)
	half := func(t Task) bool { return t.Target == TargetDriver }
	b.ReportAllocs()
	for b.Loop() {
		if len(Cut(m, half)) == 0 {
			b.Fatal("the cut is empty")
		}
	}
}

func BenchmarkPrint10000Nodes(b *testing.B) {
	book, nodes := largeFleet(10_000)
	m := mustPlan(b, book, nodes, 1000)
	printed := map[string]func() int{
		"table":   func() int { return len(Table(m, nil)) },
		"mermaid": func() int { return len(Mermaid(m, nil)) },
	}
	for _, name := range []string{"table", "mermaid"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if printed[name]() == 0 {
					b.Fatal("nothing was printed")
				}
			}
		})
	}
}
