package operation

import topsv1 "github.com/topsops/gcu-operator/api/v1"

// Keeps reports whether an operation that has ended keeps its node cordoned if the node has its mark: release takes the mark away
// before it records the end of an operation that left something of a version that failed, so it was Held, even if an older
// CRD dropped that from the record.
func Keeps(op *topsv1.OperationStatus) bool {
	if op == nil || !op.Phase.Final() || op.Phase == topsv1.OperationDone {
		return false
	}
	failed := op.Phase == topsv1.OperationFailed || op.Phase == topsv1.OperationQuarantined
	return op.Held || op.CordonedBy != "" || op.Touched && (failed || op.Reason == ReasonTargetChanged && HasUnprovenDriver(op))
}

// lostHeld reports whether the record lacks that the operation keeps its node cordoned.
func lostHeld(f *Facts) bool {
	return Keeps(f.Operation) && !f.Operation.Held && f.Node.Cordon.Mark == CordonMark(f.Operation)
}
