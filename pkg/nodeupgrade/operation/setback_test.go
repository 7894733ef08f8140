package operation

import (
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// The Node is read before the record, and pods come from a cache: both may be older than the record, in a process that was suspended or has
// just begun to lead. A person may also uncordon the node. The agent is at work on the restart meanwhile.
func TestARestartThatIsSetBackGoesOn(t *testing.T) {
	for _, tc := range []struct {
		name string
		with func(*Facts)
		back string
		// answer is what the agent reports meanwhile.
		answer  topsv1.HostTaskState
		attempt int32
	}{
		{"by a cache with the pod that was replaced", func(f *Facts) {
			seen := pod(f, "toolkit")
			seen.NamedPod, seen.Revision, seen.Terminating = *f.Operation.Tasks[taskAt(f, "toolkit_replace")].Pod, "v1", true
		}, "Running toolkit_replace InProgress", "Running", 1},
		{"by a Node from before the cordon", func(f *Facts) {
			f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = false, ""
		}, "Running node_cordon InProgress Cordon", "Running", 1},
		{"by a Node from before the cordon, while it fails", func(f *Facts) {
			f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = false, ""
		}, "Running node_cordon InProgress Cordon", "Failed", 2},
		{"by a Node from before the cordon, while it has been requested again because it failed", func(f *Facts) {
			f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = false, ""
			f.Operation.Tasks[taskAt(f, "node_restart-runtime")].Attempts = 2
		}, "Running node_cordon InProgress Cordon", "Failed", 2},
		{"by a person who has the toolkit replaced again", override("retry:" + theNode + "_toolkit_replace"),
			"Running toolkit_replace InProgress DeletePod", "Running", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := reach(t, "node_restart-runtime", toolkitOnly...)
			f.Record = decides(t, reach(t, "node_restart-runtime", toolkitOnly...), tc.back, tc.with).Record
			later(30 * time.Minute)(&f)
			result("node_restart-runtime", tc.answer)(&f)
			pod(&f, "toolkit").UID = "next"
			f.Record = decides(t, f, "Running node_restart-runtime InProgress").Record
			task := f.Operation.Tasks[taskAt(&f, "node_restart-runtime")]
			if task.State != topsv1.OperationTaskRunning || task.Attempts != tc.attempt || !task.StartTime.Time.Equal(f.Now) {
				t.Errorf("%s, attempt %d, since %s, want attempt %d, with all of its time", task.State, task.Attempts, task.StartTime, tc.attempt)
			}
		})
	}
}

func TestARestartThatWasSetBackAndGoesOnIsNotDoneThoughTheRuntimeIsRight(t *testing.T) {
	f := reach(t, "node_restart-runtime", toolkitOnly...)
	f.Operation.Tasks[taskAt(&f, "node_restart-runtime")].State = topsv1.OperationTaskPending
	f.Host.Runtime.Default = topsv1.DefaultRuntime
	result("node_restart-runtime", topsv1.HostTaskRunning)(&f)
	f.Host.Results[len(f.Host.Results)-1].Reason = ReasonInProgress
	decides(t, f, "Running node_restart-runtime InProgress")
}
