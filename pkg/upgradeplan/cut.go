package upgradeplan

import "slices"

// Cut returns the tasks of a mission for which keep returns true, in the same order; stages, jobs and
// batches that become empty are dropped (contract statement 93). The mission is not modified. A mission
// edited by hand is cut like any other.
//
// Nothing is added: cut to the tasks of a driver, the mission has no cordon and no eviction. To upgrade
// fewer components with everything they need, Narrow the nodes before planning.
func Cut(m Mission, keep func(Task) bool) (cut Mission) {
	for _, batch := range m {
		var jobs Batch
		for _, job := range batch {
			if j := cutJob(job, keep); len(j) > 0 {
				jobs = append(jobs, j)
			}
		}
		if len(jobs) > 0 {
			cut = append(cut, jobs)
		}
	}
	return cut
}

func cutJob(job Job, keep func(Task) bool) (cut Job) {
	for _, stage := range job {
		if s := slices.DeleteFunc(slices.Clone(stage), func(t Task) bool { return !keep(t) }); len(s) > 0 {
			cut = append(cut, s)
		}
	}
	return cut
}

// Narrow returns a node as if only these of its components had changed: a plan for them then has the
// cordon, the eviction and the restarts that they need, and no others. The node is not modified.
func Narrow(n Node, components []string) Node {
	n.Changed = slices.DeleteFunc(slices.Clone(n.Changed), func(c string) bool { return !slices.Contains(components, c) })
	return n
}
