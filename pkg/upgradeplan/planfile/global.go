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

// globalTasks returns the tasks of the cluster, in their order.
func globalTasks(spec *topsv1.UpgradePlanSpec) iter.Seq[*topsv1.GlobalTask] {
	return func(yield func(*topsv1.GlobalTask) bool) {
		for _, list := range [][]topsv1.GlobalTask{spec.Before, spec.After} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// CronJobs returns the names of the CronJobs of the tasks of the cluster, sorted.
func (p *Plan) CronJobs() []string {
	var names []string
	for t := range globalTasks(&p.Object.Spec) {
		names = append(names, t.CronJob)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// GlobalText describes the tasks of the cluster, a line for each; "" without any.
func (p *Plan) GlobalText() string {
	var b strings.Builder
	for t := range globalTasks(&p.Object.Spec) {
		when := AfterNodes
		if slices.Contains(p.Object.Spec.Before, *t) {
			when = BeforeNodes
		}
		fmt.Fprintf(&b, "%s the nodes: %s, from CronJob %s\n", when, GlobalName(t), t.CronJob)
	}
	return b.String()
}
