package display

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// PlanResult is a stored plan with its result.
type PlanResult struct {
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// Revision is the one that it upgrades to.
	Revision string `json:"revision"`
	// InForce is true for the plan that the gr follows.
	InForce bool `json:"inForce"`
	// Time of the result; absent before there is one.
	Time   *metav1.Time        `json:"time,omitempty"`
	Done   int32               `json:"done"`
	Fail   int32               `json:"fail"`
	Undo   int32               `json:"undo"`
	Failed []topsv1.FailedNode `json:"failed,omitempty"`
	// Nodes have the results of nodes and tasks.
	Nodes []planfile.NodeResult `json:"nodes,omitempty"`
	// Problem is why the plan cannot be read; empty if it can.
	Problem string `json:"problem,omitempty"`
}

// PlansOf returns the plans for a gr among others, newest first.
func PlansOf(gr *topsv1.GcuResource, plans []topsv1.UpgradePlan) []PlanResult {
	results := []PlanResult{}
	for i := range plans {
		p := &plans[i]
		if p.Spec.GcuResource != gr.Name {
			continue
		}
		r := PlanResult{Name: p.Name, Created: p.CreationTimestamp, Revision: p.Spec.Revision, InForce: gr.Annotations[topsv1.AnnotationUpgradePlan] == p.Name,
			Time: p.Status.Time, Done: p.Status.Done, Fail: p.Status.Fail, Undo: p.Status.Undo, Failed: p.Status.Failed}
		if plan, err := planfile.Read(p, upgradeplan.DefaultBook()); err != nil {
			r.Problem = err.Error()
		} else {
			r.Nodes = plan.Results()
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b PlanResult) int {
		return cmp.Or(b.Created.Compare(a.Created.Time), cmp.Compare(b.Name, a.Name))
	})
	return results
}

// PlansText has a line per plan, what failed in each and, if wide, a line per node.
func PlansText(results []PlanResult, s Style) string {
	t := Table{Header: []string{"PLAN", "AGE", "REVISION", "DONE", "FAIL", "UNDO", "NOTE"}}
	for i := range results {
		r := &results[i]
		t.Rows = append(t.Rows, cells(r.Name, s.age(r.Created), r.Revision, strconv.Itoa(int(r.Done)), strconv.Itoa(int(r.Fail)), strconv.Itoa(int(r.Undo)), r.note()))
	}
	var b strings.Builder
	b.WriteString(t.Text(s))
	for i := range results {
		results[i].details(&b, s)
	}
	return b.String()
}

func (r *PlanResult) note() string {
	switch {
	case r.Problem != "":
		return r.Problem
	case r.InForce:
		return "in force"
	case r.Time == nil:
		return "never run"
	}
	return ""
}

// details lists what failed and what is not done.
func (r *PlanResult) details(b *strings.Builder, s Style) {
	for _, f := range r.Failed {
		fmt.Fprintf(b, "%s: %s failed: %s\n", r.Name, cmp.Or(f.Task, f.Node), f.Message)
	}
	var undone []string
	for _, n := range r.Nodes {
		if n.Result == planfile.Undo {
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
