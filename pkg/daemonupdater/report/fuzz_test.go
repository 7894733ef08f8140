package report

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// FuzzRequests answers what an agent wrote into the status of its NodeUpgrade. It checks that each task answers a
// request, that answers are final and the same in the next pass, and that nothing is asked for in the future.
func FuzzRequests(f *testing.F) {
	of := func(requests ...topsv1.UpgradeRequest) topsv1.NodeUpgradeStatus {
		return topsv1.NodeUpgradeStatus{Requests: requests}
	}
	withdrawn, misnamed, later, stranger := asked("w"), asked("m"), asked("l"), asked("s")
	withdrawn.Withdrawn, misnamed.Pod.Name, later.RequestTime = true, "../a\n", fixture.Ago(-1e18)
	stranger.DaemonSet.UID, later.Revision = "invented", "another"
	answered := of(asked("1"), stranger)
	answered.Tasks = []topsv1.UpgradeTask{fixture.TaskIn("1", topsv1.TaskRunning), fixture.TaskIn("gone", topsv1.TaskDone)}
	for _, status := range []topsv1.NodeUpgradeStatus{of(asked("1")), of(withdrawn, misnamed), of(later, stranger), answered, {}} {
		data, err := json.Marshal(status)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		upgrade := fixture.NodeUpgrade("a")
		if json.Unmarshal(data, &upgrade.Status) != nil || repeated(upgrade) {
			return
		}
		answers := requestResultsOf(change(otaInput(asking(fixture.Planned("a", fixture.OldHash))), func(in *rollout.Input) { in.Settings.Strategy = daemonset.OTA }))
		gone := func(ref topsv1.NamespacedRef) bool { return ref.UID != "uid-driver" }
		checkAnswers(t, upgrade, answers.Tasks)
		checkAnswers(t, upgrade, func(u *topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool) { return OrphanTasks(u, gone, fixture.Epoch) })
		for i := range upgrade.Status.Requests {
			if at := observed.RequestedAt(&upgrade.Status.Requests[i], fixture.Epoch); at.After(fixture.Epoch) {
				t.Errorf("request %q is of %s", upgrade.Status.Requests[i].ID, at)
			}
		}
	})
}

// repeated reports whether a request or a task is there twice, which the API server does not store.
func repeated(u *topsv1.NodeUpgrade) bool {
	var requests, tasks []string
	for _, r := range u.Status.Requests {
		requests = append(requests, r.ID)
	}
	for _, task := range u.Status.Tasks {
		tasks = append(tasks, task.RequestID)
	}
	slices.Sort(requests)
	slices.Sort(tasks)
	return len(slices.Compact(requests)) < len(u.Status.Requests) || len(slices.Compact(tasks)) < len(u.Status.Tasks)
}

// checkAnswers checks the tasks of one NodeUpgrade.
func checkAnswers(t *testing.T, upgrade *topsv1.NodeUpgrade, answer func(*topsv1.NodeUpgrade) ([]topsv1.UpgradeTask, bool)) {
	t.Helper()
	tasks, _ := answer(upgrade)
	for _, task := range tasks {
		request := slices.IndexFunc(upgrade.Status.Requests, func(r topsv1.UpgradeRequest) bool { return r.ID == task.RequestID })
		if request < 0 {
			t.Fatalf("task %+v answers no request", task)
		}
		if shown := taskOf(upgrade.Status.Tasks, task.RequestID); shown != nil && shown.State.Final() && !cmp.Equal(*shown, task) {
			t.Errorf("a final answer changes: %s", cmp.Diff(*shown, task))
		}
	}
	replaced, byTarget := NewlyFinal(upgrade, tasks)
	for _, request := range slices.Concat(replaced, byTarget) {
		if shown := taskOf(upgrade.Status.Tasks, request.ID); shown != nil && shown.State.Final() {
			t.Errorf("request %q is confirmed again", request.ID)
		}
	}
	again, changed := answer(WithTasks(upgrade, tasks))
	if changed {
		t.Errorf("the answers change in the next pass: %s", cmp.Diff(tasks, again))
	}
}
