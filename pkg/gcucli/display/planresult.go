package display

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// PlansText has a line per plan, what failed in each and, if wide, a line per node.
func PlansText(results []planfile.Result, s Style) string {
	t := Table{Header: []string{"PLAN", "AGE", "REVISION", "DONE", "FAIL", "UNDO", "NOTE"}}
	for i := range results {
		r := &results[i]
		t.Rows = append(t.Rows, cells(r.Name, s.age(r.Created), r.Revision, strconv.Itoa(int(r.Done)), strconv.Itoa(int(r.Fail)), strconv.Itoa(int(r.Undo)), planNote(r)))
	}
	var b strings.Builder
	b.WriteString(t.Text(s))
	for i := range results {
		planDetails(&b, &results[i], s)
	}
	return b.String()
}

func planNote(r *planfile.Result) string {
	switch {
	case r.Problem != "":
		return r.Problem
	case r.RolledBack != nil:
		return "rolled back"
	case r.InForce:
		return "in force"
	case r.Time == nil:
		return "never run"
	}
	return ""
}

// planDetails lists what failed and what is not done.
func planDetails(b *strings.Builder, r *planfile.Result, s Style) {
	for _, f := range r.Failed {
		fmt.Fprintf(b, "%s: %s failed: %s\n", r.Name, cmp.Or(f.Task, f.Node), f.Message)
	}
	var undone []string
	for _, n := range r.Nodes {
		if n.Result == planfile.NotDone {
			undone = append(undone, n.Node)
		}
	}
	if len(undone) > 0 {
		fmt.Fprintf(b, "%s: undo: %s\n", r.Name, message.Names(undone))
	}
	if !s.Wide || len(r.Nodes) == 0 {
		return
	}
	t := Table{Header: []string{"NODE", "BATCH", "RESULT", "DONE", "FAIL", "UNDO"}, Indent: "  "}
	for _, n := range r.Nodes {
		t.Rows = append(t.Rows, cells(n.Node, n.Batch, string(n.Result), strconv.Itoa(len(n.Tasks.Done)), strings.Join(n.Tasks.Fail, ", "), strconv.Itoa(len(n.Tasks.Undo))))
	}
	b.WriteString(t.Text(s))
}
