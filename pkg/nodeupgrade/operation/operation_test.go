package operation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestAnOverrideIsCarriedOutOnce(t *testing.T) {
	f := reach(t, "driver_verify", everything...)
	override("retry:n1_driver_verify")(&f)
	f.Record = newMachine(t).Next(f).Record
	later(time.Second)(&f)
	if diff := cmp.Diff(f.Record, newMachine(t).Next(f).Record); diff != "" {
		t.Error(diff)
	}
}

// TestEveryEffectHasItsPreconditions checks invariant S5 over a whole operation.
func TestEveryEffectHasItsPreconditions(t *testing.T) {
	for _, at := range []string{"node_cordon", "node_evict", "driver_replace", "toolkit_replace", "exporter_replace", "Releasing"} {
		f := reach(t, at, everything...)
		for _, e := range newMachine(t).Next(f).Effects {
			ofNode := e.NodeUID == "node" && e.NodeVersion == f.Node.Cordon.ResourceVersion
			ofPod := e.Pod.UID != "" && e.Pod.ResourceVersion != ""
			if e.Operation != "op" || e.Kind != Evict && !ofNode && !ofPod {
				t.Errorf("at %s: %+v", at, e)
			}
		}
		f.Node.Cordon.ResourceVersion = ""
		for _, e := range newMachine(t).Next(f).Effects {
			if e.Kind != Evict && e.Pod.UID == "" {
				t.Errorf("at %s, without a resourceVersion of the node: %+v", at, e)
			}
		}
	}
}

func TestAFailedPullIsAskedForAgain(t *testing.T) {
	f := reach(t, "driver_prepull", everything...)
	result("driver_prepull", topsv1.HostTaskFailed)(&f)
	attempts := func(d Decision) int32 {
		f := Facts{Record: d.Record}
		return d.Record.Operation.Tasks[taskAt(&f, "driver_prepull")].Attempts
	}
	later(20 * time.Second)(&f)
	if got := attempts(newMachine(t).Next(f)); got != 1 {
		t.Errorf("attempt %d after 20 s, want 1", got)
	}
	later(10 * time.Second)(&f)
	if got := attempts(newMachine(t).Next(f)); got != 2 {
		t.Errorf("attempt %d after 30 s, want 2", got)
	}
}

func TestADeletionIsFencedBeforeTheNodeIsGivenBack(t *testing.T) {
	f := reach(t, "toolkit_replace", everything...)
	f.Wanted.Abort = true
	named := pod(&f, "toolkit").NamedPod
	d := newMachine(t).Next(f)
	want := []Effect{{Kind: FencePod, Operation: "op", Pod: named}}
	if diff := cmp.Diff(want, d.Effects); diff != "" {
		t.Errorf("while the pod is as it was named: %s", diff)
	}
	f.Record = d.Record
	pod(&f, "toolkit").ResourceVersion = "1"
	if d := newMachine(t).Next(f); len(d.Effects) != 0 || d.Record.Operation.Phase.Final() {
		t.Errorf("while it is seen as it was before: %s", summaryOf(d))
	}
	pod(&f, "toolkit").ResourceVersion = "100000"
	if got := summaryOf(newMachine(t).Next(f)); got != "Releasing then Aborted toolkit_replace Aborted UntaintDevice" {
		t.Errorf("once it has changed: %s", got)
	}
}

func TestADeletionIsFencedWhenTheNodeStaysCordoned(t *testing.T) {
	f := reach(t, "toolkit_replace", everything...)
	named := pod(&f, "toolkit").NamedPod
	later(10 * time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	if op := f.Operation; !op.Held {
		t.Fatalf("%s %s: the node does not stay cordoned", op.Phase, op.Reason)
	}
	before := f.Operation.Message
	f.Operation.Message += notReleased + "a webhook denied the fence"
	want := []Effect{{Kind: FencePod, Operation: "op", Pod: named}}
	d := newMachine(t).Next(f)
	if diff := cmp.Diff(want, d.Effects); diff != "" {
		t.Errorf("an interrupted manager may still delete the pod, after a person has uncordoned the node: %s", diff)
	}
	if got := d.Record.Operation.Message; got != before {
		t.Errorf("message %q, want %q: nothing denies it any more", got, before)
	}
}

func TestAPodIsNotDeletedByAnOlderView(t *testing.T) {
	f := reach(t, "toolkit_replace", everything...)
	pod(&f, "toolkit").ResourceVersion = "1"
	if got := summaryOf(newMachine(t).Next(f)); got != "Running toolkit_replace InProgress" {
		t.Error(got)
	}
}

func TestAHeldNodeWaitsForAPersonOrAnotherOperation(t *testing.T) {
	held := reach(t, "driver_verify", everything...)
	later(5 * time.Minute)(&held)
	held.Record = newMachine(t).Next(held).Record
	for _, tc := range []struct {
		name string
		with func(*Facts)
		want string
	}{
		{"it stays as it is", func(*Facts) {}, "Failed held driver_verify VerifyFailed"},
		{"a retry goes on with the task", override("retry:n1_driver_verify"), "Running driver_verify InProgress"},
		{"a retry of an earlier task does that again", override("retry:n1_driver_replace"), "Running driver_replace InProgress DeletePod"},
		{"a skip goes on behind it", override("skip:n1_driver_verify"), "Running toolkit_replace InProgress DeletePod"},
		{"an abort gives the node back", func(f *Facts) { f.Wanted.Abort = true }, "Releasing then Failed driver_verify VerifyFailed UntaintDevice"},
		{"so does one of another rollout", func(f *Facts) { f.Wanted.ID, f.Wanted.Rollout = "next", "gcu-system/other" }, "Releasing then Failed driver_verify VerifyFailed UntaintDevice"},
		{"another of the rollout waits for its slot", func(f *Facts) { f.Wanted.ID, f.Wanted.Granted = "next", false }, "Failed held driver_verify VerifyFailed"},
		{"another of the rollout first opens the device", func(f *Facts) { f.Wanted.ID = "next" }, "Failed held driver_verify VerifyFailed UntaintDevice"},
		{"and then takes over the cordon", func(f *Facts) { f.Wanted.ID, f.Node.Taint = "next", "" }, "Running InProgress"},
		{"so does the end of the rollout", func(f *Facts) { f.Wanted = nil }, "Releasing then Failed driver_verify VerifyFailed UntaintDevice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := held
			f.Wanted = held.Wanted.DeepCopy()
			tc.with(&f)
			d := newMachine(t).Next(f)
			if diff := cmp.Diff(tc.want, summaryOf(d)); diff != "" {
				t.Error(diff)
			}
			if task := d.Record.Operation.Tasks[taskAt(&f, "driver_verify")]; d.Record.Operation.Phase == topsv1.OperationRunning && task.State == topsv1.OperationTaskFailed {
				t.Error("the operation continues, and would end again with the failure of before")
			}
		})
	}
}

func TestAFailedRestartIsRetriedByTheAgent(t *testing.T) {
	f := reach(t, "node_restart-runtime", everything...)
	result("node_restart-runtime", "Failed")(&f)
	f.Record = newMachine(t).Next(f).Record
	override("retry:n1_node_restart-runtime")(&f)
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Running node_restart-runtime InProgress" {
		t.Fatal(got)
	}
	f.Record = d.Record
	if task := f.Operation.Tasks[taskAt(&f, "node_restart-runtime")]; task.State != topsv1.OperationTaskRunning || task.Attempts != 2 {
		t.Errorf("the agent is to do %+v", task)
	}
	aborted := f
	aborted.Wanted = f.Wanted.DeepCopy()
	aborted.Wanted.Abort = true
	later(time.Minute)(&aborted)
	if d := newMachine(t).Next(aborted); len(d.Effects) != 0 {
		t.Errorf("the node is given back before the agent has ended the second attempt: %s", summaryOf(d))
	}
	f.Host.Results[len(f.Host.Results)-1].Attempt = 2
	if got := summaryOf(newMachine(t).Next(f)); got != "Failed held node_restart-runtime RestartFailed" {
		t.Error(got)
	}
}

// A held node may be uncordoned by a person: it is emptied again before its runtime is
// restarted.
func TestAHeldNodeIsEmptiedAgainBeforeItIsDisturbed(t *testing.T) {
	f := reach(t, "node_restart-runtime", everything...)
	f.Node.Ready, f.Node.Since = false, f.Now
	later(time.Hour)(&f)
	f.Record = newMachine(t).Next(f).Record
	if op := f.Operation; !op.Held || op.Reason != ReasonNodeLost {
		t.Fatalf("the node is not held but %s %s", op.Phase, op.Reason)
	}
	f.Node.Ready, f.Node.Since, f.Drained = true, f.Now, Drained{Message: "pods are left"}
	override("skip:n1_toolkit_prepull")(&f)
	if got := summaryOf(newMachine(t).Next(f)); got != "Running node_evict InProgress EvictAll" {
		t.Error(got)
	}
}

func TestAnOperationThatIsNotUnderstoodTouchesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Facts)
		says   string
	}{
		"a task that is none":                 {func(f *Facts) { f.Wanted.Job[0][0] = "precheck" }, "host_target_action"},
		"a job of another host":               {func(f *Facts) { f.Node.Name = "n2" }, "not for this node"},
		"an unknown action":                   {func(f *Facts) { f.Wanted.Job[0][0] = "n1_node_explode" }, "explode"},
		"a verification of something unknown": {func(f *Facts) { f.Wanted.Job[0][0] = "n1_nfd_verify" }, "target of verify nfd"},
		"a component without a target":        {func(f *Facts) { f.Wanted.Job[0][0] = "n1_gfd_replace" }, "no target gfd"},
		"a drain that is not understood": {func(f *Facts) {
			f.Wanted.Drain = &topsv1.DrainPolicy{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}
		}, "podSelector"},
		"an id that was used before": {func(f *Facts) { f.History = []topsv1.OperationRecord{{ID: "op"}} }, "has ended before"},
	} {
		t.Run(name, func(t *testing.T) {
			f := reach(t, "node_precheck", everything...)
			f.Record = Record{}
			tc.change(&f)
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != "Aborted BadOperation" || !strings.Contains(d.Record.Operation.Message, tc.says) {
				t.Errorf("%s: %s, want %q", got, d.Record.Operation.Message, tc.says)
			}
		})
	}
}

func TestHistoryHasTheResultsOfTheFramework(t *testing.T) {
	f := reach(t, "driver_verify", driverOnly...)
	later(5 * time.Minute)(&f)
	history := newMachine(t).Next(f).Record.History
	want := topsv1.OperationResult{
		Done: []string{"n1_node_precheck", "n1_driver_prepull", "n1_node_cordon", "n1_node_evict", "n1_driver_replace"},
		Fail: []string{"n1_driver_verify"},
		Undo: []string{"n1_devicePlugin_replace", "n1_allocatable_verify", "n1_exporter_replace", "n1_node_soak", "n1_node_uncordon"},
	}
	if diff := cmp.Diff(want, history[len(history)-1].Result); diff != "" {
		t.Error(diff)
	}
	f = reach(t, "Done", driverOnly...)
	if got := f.History[0].Result; len(got.Done) != len(f.Operation.Tasks) || got.Fail != nil || got.Undo != nil {
		t.Errorf("after a success there is only done: %+v", got)
	}
}

func TestHistoryKeepsTheLastTwenty(t *testing.T) {
	f := reach(t, "node_soak", driverOnly...)
	f.History = slices.Repeat([]topsv1.OperationRecord{{ID: "old"}}, 20)
	f.Wanted.Abort, f.Node.Taint = true, ""
	f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = false, ""
	for i := range f.Members {
		f.Members[i].Pod.ResourceVersion = "100000"
	}
	history := newMachine(t).Next(f).Record.History
	if len(history) != 20 || history[19].ID != "op" {
		t.Errorf("%d entries, the last is %s", len(history), history[len(history)-1].ID)
	}
}

func TestLeftoversOfAnEndedOperationAreTakenAway(t *testing.T) {
	f := reach(t, "Done", driverOnly...)
	f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark, f.Node.Taint = true, "op", ""
	if got := summaryOf(newMachine(t).Next(f)); got != "Done Succeeded Uncordon" {
		t.Errorf("a cordon: %s", got)
	}
	f.Node.Taint = "op"
	if got := summaryOf(newMachine(t).Next(f)); got != "Done Succeeded UntaintDevice" {
		t.Errorf("a taint: %s", got)
	}
	f.Node.Cordon.Mark, f.Node.Taint = "newer", "newer"
	if got := summaryOf(newMachine(t).Next(f)); got != "Done Succeeded" {
		t.Errorf("what an unknown operation left: %s", got)
	}
}

// TestARestartThatMayStillHappenIsWaitedFor checks invariant S8: an agent that begins at the
// last moment has as long again to restart the runtime, and the node is not released before.
func TestARestartThatMayStillHappenIsWaitedFor(t *testing.T) {
	f := reach(t, "node_restart-runtime", everything...)
	f.Wanted.Abort = true
	f.Record = newMachine(t).Next(f).Record
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{
		{8 * time.Minute, "Releasing then Aborted node_restart-runtime Aborted"},
		{6 * time.Minute, "Releasing then Aborted node_restart-runtime Aborted UntaintDevice"},
	} {
		later(tc.after)(&f)
		if got := summaryOf(newMachine(t).Next(f)); got != tc.want {
			t.Errorf("%s later: %s, want %s", tc.after, got, tc.want)
		}
	}
}

// The clock was set ahead by three hours meanwhile.
func TestARestartThatMayStillHappenIsWaitedForThoughTheClockJumps(t *testing.T) {
	f := reach(t, "node_restart-runtime", everything...)
	f.Wanted.Abort = true
	f.Record = newMachine(t).Next(f).Record
	later(3 * time.Hour)(&f)
	f.WorkedSince = f.Now
	for _, tc := range []struct {
		after time.Duration
		want  string
	}{
		{14*time.Minute - time.Second, "Releasing then Aborted node_restart-runtime Aborted"},
		{time.Second, "Releasing then Aborted node_restart-runtime Aborted UntaintDevice"},
	} {
		later(tc.after)(&f)
		if got := summaryOf(newMachine(t).Next(f)); got != tc.want {
			t.Errorf("after %s more: %s, want %s", tc.after, got, tc.want)
		}
	}
}

// TestARestartThatIsLeftToTheAdministratorIsNotWaitedFor: an agent that says so when the operation is
// over will not begin. What it said before may be of an agent that is replaced by one that may, and a manager that begins
// its work does not know when it said what it sees first.
func TestARestartThatIsLeftToTheAdministratorIsNotWaitedFor(t *testing.T) {
	f := reach(t, "node_restart-runtime", everything...)
	result("node_restart-runtime", "Waiting")(&f)
	later(7 * time.Minute)(&f)
	f.Record = newMachine(t).Next(f).Record
	since := f.Operation.Since.Time
	for _, tc := range []struct {
		worked, reported time.Time
		want             string
	}{
		{f.WorkedSince, since.Add(-time.Second), "Releasing then Deferred node_restart-runtime LeftToAdministrator"},
		{since.Add(time.Second), since.Add(time.Second), "Releasing then Deferred node_restart-runtime LeftToAdministrator"},
		{since.Add(time.Second), since.Add(2 * time.Second), "Releasing then Deferred node_restart-runtime LeftToAdministrator UntaintDevice"},
		{f.WorkedSince, since.Add(time.Second), "Releasing then Deferred node_restart-runtime LeftToAdministrator UntaintDevice"},
	} {
		later(time.Minute)(&f)
		f.WorkedSince, f.HostSince = tc.worked, tc.reported
		if got := summaryOf(newMachine(t).Next(f)); got != tc.want {
			t.Errorf("working since %s, reported at %s: %s, want %s", tc.worked, tc.reported, got, tc.want)
		}
	}
}

// TestAVersionThatIsOnTheNodeAlreadyIsToBlame: a node on which a version does not work is not
// released, whoever put the version there.
func TestAVersionThatIsOnTheNodeAlreadyIsToBlame(t *testing.T) {
	for _, tc := range []struct {
		crashing bool
		want     string
	}{
		{true, "Failed held driver_replace CrashLoop"},
		{false, "Failed held driver_verify VerifyFailed"},
	} {
		f := reach(t, "node_evict", driverOnly...)
		f.Drained = Drained{Empty: true}
		driver := pod(&f, "driver")
		driver.Revision, driver.Available, driver.CrashLooping = "v2", !tc.crashing, tc.crashing
		f.Record = newMachine(t).Next(f).Record
		if !tc.crashing {
			later(6 * time.Minute)(&f)
		}
		if got := summaryOf(newMachine(t).Next(f)); got != tc.want {
			t.Errorf("crashing=%t: %s, want %s", tc.crashing, got, tc.want)
		}
	}
}

// Pods may come to a node that somebody uncordons while its restart is pending: it is drained again once it is cordoned again.
func TestANodeThatWasUncordonedDuringAPendingRestartIsDrainedAgain(t *testing.T) {
	f := reach(t, "node_restart-runtime", everything...)
	cordoned := f.Node.Cordon
	f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = false, ""
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Running node_cordon InProgress Cordon" {
		t.Fatalf("once it is uncordoned: %s", got)
	}
	f.Record, f.Node.Cordon, f.Drained = d.Record, cordoned, Drained{Message: "a pod is left"}
	if !NeedsDrained(f) {
		t.Error("no read finds out whether it is empty")
	}
	if got := summaryOf(newMachine(t).Next(f)); got != "Running node_evict InProgress EvictAll" {
		t.Errorf("with a pod that came meanwhile: %s", got)
	}
	f.Drained = Drained{Empty: true}
	if got := summaryOf(newMachine(t).Next(f)); got != "Running node_restart-runtime InProgress" {
		t.Errorf("without one: %s", got)
	}
}

// Whether a restart of the runtime stops the containers of all pods may change after the precheck, as with live-restore of docker.
func TestANodeIsDrainedOfAllPodsIfTheRestartStopsThemByNow(t *testing.T) {
	f := reach(t, "toolkit_replace", everything...)
	f.Operation.DrainAll = false // it did not at the precheck
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Running node_evict InProgress" || !d.Record.Operation.DrainAll {
		t.Fatalf("before the restart: %s, all pods: %t", got, d.Record.Operation.DrainAll)
	}
	f.Record, f.Drained = d.Record, Drained{Message: "a pod is left"}
	if got := summaryOf(newMachine(t).Next(f)); got != "Running node_evict InProgress EvictAll" {
		t.Errorf("with a pod that would be stopped: %s", got)
	}
	f.Drained = Drained{Empty: true}
	if got := summaryOf(newMachine(t).Next(f)); got != "Running toolkit_replace InProgress DeletePod" {
		t.Errorf("without one: %s", got)
	}
	for name, with := range map[string]func(*Facts){
		"the restart has begun": func(f *Facts) { *f = reach(t, "node_restart-runtime", everything...) },
		"it stops no container": func(f *Facts) { no := false; f.Host.Runtime.RestartStopsContainers = &no },
		"a person skipped the restart": func(f *Facts) {
			*f = reach(t, "node_evict", everything...)
			override("skip:n1_node_restart-runtime")(f)
		},
		"the runtime needs no restart by now": func(f *Facts) { f.Host.Runtime.Default = topsv1.DefaultRuntime },
	} {
		f := reach(t, "toolkit_replace", everything...)
		with(&f)
		f.Operation.DrainAll = false
		if d := newMachine(t).Next(f); d.Record.Operation.DrainAll {
			t.Errorf("%s: %s", name, summaryOf(d))
		}
	}
}

// The API server refuses a record with more users of the device. Pods that are gone make room, and what cannot be recorded is not
// deleted.
func TestTheRecordNamesAsManyUsersAsTheAPIServerStores(t *testing.T) {
	f := reach(t, "driver_replace", everything...)
	f.Drained, f.Node.Taint = Drained{Empty: true}, "op"
	rec := &f.Operation.Tasks[taskAt(&f, "driver_replace")]
	rec.Users = nil
	for i := range 64 {
		rec.Users = append(rec.Users, topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Namespace: "ns", Name: "gone", UID: types.UID(fmt.Sprint("gone-", i))}, ResourceVersion: "1"})
	}
	d := newMachine(t).Next(f)
	users := d.Record.Operation.Tasks[taskAt(&f, "driver_replace")].Users
	deleted := 0
	for _, e := range d.Effects {
		if e.Kind == DeletePod {
			deleted++
			if !slices.Contains(users, e.Pod) {
				t.Errorf("pod %s is deleted and not recorded", e.Pod.Name)
			}
		}
	}
	if deleted != 2 || len(users) != 64 {
		t.Errorf("%d pods are deleted, %d recorded: want 2 and 64", deleted, len(users))
	}
	for i := range f.Operation.Tasks[taskAt(&f, "driver_replace")].Users {
		named := f.Operation.Tasks[taskAt(&f, "driver_replace")].Users[i]
		f.Members = append(f.Members, Member{DaemonSet: "ns/alive", Pod: &Pod{NamedPod: named}})
	}
	d = newMachine(t).Next(f)
	if users := d.Record.Operation.Tasks[taskAt(&f, "driver_replace")].Users; len(users) != 64 || slices.ContainsFunc(d.Effects, func(e Effect) bool { return e.Kind == DeletePod }) {
		t.Errorf("though no pod is gone: %d users, effects %v", len(users), d.Effects)
	}
}
