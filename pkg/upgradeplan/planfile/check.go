package planfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Check compares a plan with what the nodes need now. nodes has every node that runs components of the gr,
// by name, whether or not it needs an upgrade. Check returns nil if the plan can be run: tasks that are done
// already do not matter. Otherwise the error lists the tasks that do not match, and why.
func (p *Plan) Check(nodes map[string]upgradeplan.Node, book upgradeplan.LogicBook) error {
	var faults []error
	for _, batch := range p.Object.Spec.Batches {
		for _, of := range batch.Jobs {
			for _, name := range of.Nodes {
				faults = append(faults, p.jobs[of.Job].check(name, nodes, book)...)
			}
		}
	}
	if more := len(faults) - mostFaults; more > 0 {
		faults = append(faults[:mostFaults], fmt.Errorf("and %d more", more))
	}
	return errors.Join(faults...)
}

// check compares the job with what one node needs.
func (j *job) check(name string, nodes map[string]upgradeplan.Node, book upgradeplan.LogicBook) (faults []error) {
	node, known := nodes[name]
	if !known {
		return []error{fmt.Errorf("node %s does not exist, or no longer runs components of the gr", name)}
	}
	for _, c := range j.components {
		if !slices.Contains(node.Deployed, c) {
			faults = append(faults, fmt.Errorf("%s_%s_%s: the component no longer runs on the node", name, c, upgradeplan.ActionReplace))
		}
	}
	needed, err := upgradeplan.Generate(book, []upgradeplan.Node{upgradeplan.Narrow(node, j.components)})
	if err != nil {
		return append(faults, err)
	}
	for _, t := range needed {
		if p := (pair{t.Target, t.Action}); !j.has(p) && !slices.Contains(j.leaves, p) {
			faults = append(faults, fmt.Errorf("%s is needed now, but is not in %s", t, j.name))
		}
	}
	return faults
}
