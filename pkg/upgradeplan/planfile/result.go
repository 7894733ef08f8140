package planfile

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Result is a stored plan with its result.
type Result struct {
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// Revision is the one that it upgrades to.
	Revision string `json:"revision"`
	// InForce is true for the plan that the gr follows.
	InForce bool `json:"inForce"`
	// RolledBack is when an automatic rollback reversed the plan; absent if none did.
	RolledBack *metav1.Time `json:"rolledBack,omitempty"`
	// Time of the result; absent before there is one.
	Time   *metav1.Time        `json:"time,omitempty"`
	Done   int32               `json:"done"`
	Fail   int32               `json:"fail"`
	Undo   int32               `json:"undo"`
	Failed []topsv1.FailedNode `json:"failed,omitempty"`
	// Nodes have the results of nodes and tasks; absent unless they were requested.
	Nodes []NodeResult `json:"nodes,omitempty"`
	// Problem is why the plan cannot be read; empty if it can.
	Problem string `json:"problem,omitempty"`
}

// ResultOf returns a stored plan for a gr with its result; with nodes also the results of its nodes.
func ResultOf(gr *topsv1.GcuResource, p *topsv1.UpgradePlan, nodes bool) Result {
	r := Result{Name: p.Name, Created: p.CreationTimestamp, Revision: p.Spec.Revision, RolledBack: p.Status.RolledBackTime,
		InForce: gr.Annotations[topsv1.AnnotationUpgradePlan] == p.Name && p.Status.RolledBackTime == nil,
		Time:    p.Status.Time, Done: p.Status.Done, Fail: p.Status.Fail, Undo: p.Status.Undo, Failed: append(failedTasks(&p.Status), p.Status.Failed...)}
	if plan, err := Recall(p); err != nil {
		r.Problem = err.Error()
	} else if nodes {
		r.Nodes = plan.Results()
	}
	return r
}

// ResultsOf returns the results (ResultOf) of those plans that are for a gr, newest first.
func ResultsOf(gr *topsv1.GcuResource, plans []topsv1.UpgradePlan, nodes bool) []Result {
	results := []Result{}
	for i := range plans {
		if plans[i].Spec.GcuResource == gr.Name {
			results = append(results, ResultOf(gr, &plans[i], nodes))
		}
	}
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(b.Created.Compare(a.Created.Time), cmp.Compare(b.Name, a.Name))
	})
	return results
}
