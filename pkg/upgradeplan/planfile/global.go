package planfile

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// GlobalHost is the host of global tasks (contract statement 91).
const GlobalHost = "upg-server"

// Names of the groups of global tasks before the nodes and after them; they are used like names of batches.
const (
	BeforeNodes = "before"
	AfterNodes  = "after"
)

// GlobalName returns the name of a global task, as host_target_action.
func GlobalName(t *topsv1.GlobalTask) string { return GlobalHost + "_" + t.Task }

// globalTasks returns the global tasks in order, each with BeforeNodes or AfterNodes.
func globalTasks(spec *topsv1.UpgradePlanSpec) iter.Seq2[string, *topsv1.GlobalTask] {
	return func(yield func(string, *topsv1.GlobalTask) bool) {
		for i := range spec.Before {
			if !yield(BeforeNodes, &spec.Before[i]) {
				return
			}
		}
		for i := range spec.After {
			if !yield(AfterNodes, &spec.After[i]) {
				return
			}
		}
	}
}

// CronJobs returns the names of the CronJobs of the global tasks, sorted.
func (p *Plan) CronJobs() []string {
	var names []string
	for _, t := range globalTasks(&p.Object.Spec) {
		names = append(names, t.CronJob)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// GlobalText describes the global tasks, a line for each; "" without any.
func (p *Plan) GlobalText() string {
	var b strings.Builder
	for when, t := range globalTasks(&p.Object.Spec) {
		fmt.Fprintf(&b, "%s the nodes: %s, from CronJob %s\n", when, GlobalName(t), t.CronJob)
	}
	return b.String()
}
