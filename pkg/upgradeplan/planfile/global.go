package planfile

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// GlobalHost is the host of the tasks of the cluster (contract statement 91).
const GlobalHost = "upg-server"

// Names of the tasks of the cluster that are done before the nodes and after them, as those of batches.
const (
	BeforeNodes = "before"
	AfterNodes  = "after"
)

// GlobalName returns the name of a task of the cluster, as host_target_action.
func GlobalName(t *topsv1.GlobalTask) string { return GlobalHost + "_" + t.Task }

// globalTasks returns the tasks of the cluster in their order, each with when it is done.
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

// CronJobs returns the names of the CronJobs of the tasks of the cluster, sorted.
func (p *Plan) CronJobs() []string {
	var names []string
	for _, t := range globalTasks(&p.Object.Spec) {
		names = append(names, t.CronJob)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// GlobalText describes the tasks of the cluster, a line for each; "" without any.
func (p *Plan) GlobalText() string {
	var b strings.Builder
	for when, t := range globalTasks(&p.Object.Spec) {
		fmt.Fprintf(&b, "%s the nodes: %s, from CronJob %s\n", when, GlobalName(t), t.CronJob)
	}
	return b.String()
}
