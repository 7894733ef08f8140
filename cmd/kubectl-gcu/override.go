package main

import topsv1 "github.com/topsops/gcu-operator/api/v1"

// overrideIsRead returns a refusal if the operation of a node has not read the last override: another one would take its place.
func overrideIsRead(upgrade *topsv1.NodeUpgrade) error {
	if before := upgrade.Annotations[topsv1.AnnotationTaskOverride]; before != upgrade.Status.Operation.Override {
		return refused("node %s: the operator has not read %q yet, which was requested before", upgrade.Name, before)
	}
	return nil
}

// atWork returns a refusal unless a node has an operation that can be overridden.
func atWork(upgrade *topsv1.NodeUpgrade) error {
	wanted, op := upgrade.Spec.Operation, upgrade.Status.Operation
	switch {
	case wanted == nil:
		return refused("there is no operation on node %s", upgrade.Name)
	case op == nil || op.ID != wanted.ID:
		return refused("operation %s on node %s has not started yet", wanted.ID, upgrade.Name)
	case op.Phase.Final() && !op.Held:
		return refused("operation %s on node %s has ended: %s, %s", op.ID, upgrade.Name, op.Phase, op.Reason)
	case op.Phase == topsv1.OperationReleasing:
		return refused("operation %s on node %s is ending", op.ID, upgrade.Name)
	}
	return nil
}
