package upgradeplan

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Table returns the mission as text: a line for each stage of each kind of job, with its
// nodes. Nodes with equal jobs form one group, and consecutive batches with the same groups
// one entry. label adds information about a node, such as its wave and disruption; nodes with
// different labels are not grouped. It may be nil.
func Table(m Mission, label func(host string) string) string {
	var out strings.Builder
	total := count(m)
	fmt.Fprintf(&out, "batches: %d, nodes: %d, at most at once: %d, tasks: %d\n\n", len(m), total.hosts, total.most, total.tasks)
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	head := []string{"BATCH", "NODES", "STAGE", "TASKS"}
	if label != nil {
		head = []string{"BATCH", "NODES", "ABOUT", "STAGE", "TASKS"}
	}
	row(w, head...)
	for _, b := range blocks(m, label) {
		name := b.name()
		for _, g := range b.groups {
			nodes, about := g.nodes(), g.label
			for i, stage := range g.stages {
				cells := []string{name, nodes, strconv.Itoa(i + 1), stage}
				if label != nil {
					cells = []string{name, nodes, about, strconv.Itoa(i + 1), stage}
				}
				row(w, cells...)
				name, nodes, about = "", "", ""
			}
		}
	}
	// A strings.Builder never fails.
	_ = w.Flush()
	return out.String()
}

func row(w *tabwriter.Writer, cells ...string) {
	_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// Mermaid returns the mission as a Mermaid flowchart: a box for each batch, with a chain of
// stages for each group. Groups, batches and label are as in Table.
func Mermaid(m Mission, label func(host string) string) string {
	var out strings.Builder
	out.WriteString("flowchart TD\n")
	all := blocks(m, label)
	for i, b := range all {
		id := "b" + strconv.Itoa(i+1)
		fmt.Fprintf(&out, "  subgraph %s[\"batch %s\"]\n", id, b.name())
		for j, g := range b.groups {
			writeChain(&out, fmt.Sprintf("%sg%d", id, j+1), g)
		}
		out.WriteString("  end\n")
	}
	for i := 1; i < len(all); i++ {
		fmt.Fprintf(&out, "  b%d --> b%d\n", i, i+1)
	}
	return out.String()
}

func writeChain(out *strings.Builder, id string, g *group) {
	text := g.nodes()
	if g.label != "" {
		text += ": " + g.label
	}
	fmt.Fprintf(out, "    %s([\"%s\"])", id, quote(text))
	for i, stage := range g.stages {
		fmt.Fprintf(out, " --> %ss%d[\"%s\"]", id, i+1, quote(stage))
	}
	out.WriteString("\n")
}

// quote escapes a text for a Mermaid label, on one line.
func quote(s string) string {
	return strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ").Replace(s)
}
