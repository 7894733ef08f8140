package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequestedTasks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*NodeUpgrade)
		want   []string
	}{
		{"what is running is asked", func(*NodeUpgrade) {}, []string{"b"}},
		{"nothing without an operation", func(n *NodeUpgrade) { n.Spec.Operation = nil }, nil},
		{"nothing before the operation has begun", func(n *NodeUpgrade) { n.Status.Operation = nil }, nil},
		{"nothing when another operation is wanted", func(n *NodeUpgrade) { n.Spec.Operation.ID = "next" }, nil},
		{"nothing once it is to be aborted", func(n *NodeUpgrade) { n.Spec.Operation.Abort = true }, nil},
		{"nothing while the node is given back", func(n *NodeUpgrade) { n.Status.Operation.Phase = OperationReleasing }, nil},
		{"nothing after a failure", func(n *NodeUpgrade) { n.Status.Operation.Phase = OperationFailed }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := &NodeUpgrade{Spec: NodeUpgradeSpec{Operation: &NodeOperation{ID: "op"}},
				Status: NodeUpgradeStatus{Operation: &OperationStatus{ID: "op", Phase: OperationRunning, Tasks: []OperationTask{
					{Name: "a", State: OperationTaskDone}, {Name: "b", State: OperationTaskRunning}, {Name: "c", State: OperationTaskPending}}}}}
			tc.change(n)
			var got []string
			for _, task := range n.RequestedTasks() {
				got = append(got, task.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
