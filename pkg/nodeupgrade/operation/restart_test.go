package operation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

var toolkitOnly = []string{upgradeplan.TargetToolkit}

// afterRestart returns the facts of the moment in which the agent reports that it restarted the
// engine, ten seconds after the pods of the node started.
func afterRestart(t *testing.T) *Facts {
	t.Helper()
	f := reach(t, "node_restart-runtime", toolkitOnly...)
	f.Host.Runtime.Default = topsv1.DefaultRuntime
	end := metav1.NewTime(f.Now)
	for i := range f.Members {
		f.Members[i].Pod.Started = f.Now.Add(-10 * time.Second)
	}
	f.Host.Results = append(f.Host.Results, topsv1.HostTaskResult{Operation: "op", Task: theNode + "_node_restart-runtime", Attempt: 1,
		State: topsv1.HostTaskDone, Reason: topsv1.ReasonRestarted, EndTime: &end})
	return &f
}

func TestPodsThatStartedBeforeTheRestartAreReplaced(t *testing.T) {
	f := afterRestart(t)
	pod(f, "exporter").Started = f.Now.Add(time.Second)
	d := newMachine(t).Next(*f)
	if got := summaryOf(d); got != "Running node_restart-runtime InProgress DeletePod" {
		t.Fatalf("after the restart: %s", got)
	}
	if e := d.Effects[0]; e.Pod != pod(f, "devicePlugin").NamedPod {
		t.Errorf("pod %s is deleted", e.Pod.Name)
	}
	if users := d.Record.Operation.Tasks[taskAt(f, "node_restart-runtime")].Users; len(users) != 1 {
		t.Errorf("recorded before: %v", users)
	}
	f.Record = d.Record
	next := pod(f, "devicePlugin")
	next.UID, next.Name, next.Started = "next", "next", time.Time{}
	if got := summaryOf(newMachine(t).Next(*f)); got != "Running runtime_verify InProgress" {
		t.Errorf("with a successor that has not started: %s", got)
	}
}

// The clock of the node was set back after the restart: its new pods start before that.
func TestASuccessorIsNotReplacedThoughTheClockOfItsNodeWasSetBack(t *testing.T) {
	f := afterRestart(t)
	exporter := pod(f, "exporter")
	exporter.Started = f.Now.Add(time.Second)
	f.Record = newMachine(t).Next(*f).Record
	next := pod(f, "devicePlugin")
	next.UID, next.Started = "next", next.Started.Add(-3*time.Hour)
	d := newMachine(t).Next(*f)
	if got := summaryOf(d); got != "Running runtime_verify InProgress" {
		t.Errorf("with a successor that started hours ago: %s", got)
	}
	exporter.Started = next.Started
	if got := summaryOf(newMachine(t).Next(*f)); got != "Running node_restart-runtime InProgress DeletePod" {
		t.Errorf("with a pod of another DaemonSet that started before: %s", got)
	}
}

// A denied deletion says nothing of the version.
func TestAPodThatMayNotBeDeletedAfterARestartDefersTheOperation(t *testing.T) {
	f := afterRestart(t)
	f.Denied = denied(f, "exporter")
	d := newMachine(t).Next(*f)
	if got, text := summaryOf(d), d.Record.Operation.Message; got != "Running node_restart-runtime DeletionDenied DeletePod" || !strings.Contains(text, "(deletion denied: by a webhook)") {
		t.Errorf("%s: %s", got, text)
	}
	f.Record = d.Record
	later(7 * time.Minute)(f)
	if got := summaryOf(newMachine(t).Next(*f)); got != "Releasing then Deferred node_restart-runtime DeletionDenied" {
		t.Errorf("after the deadline: %s", got)
	}
	f = new(reach(t, "allocatable_verify", toolkitOnly...))
	f.Node.Allocatable["enflame.com/gcu"] = 0
	pod(f, "devicePlugin").Created = f.Operation.StartTime.Add(-time.Minute)
	f.Denied = denied(f, "devicePlugin")
	later(5 * time.Minute)(f)
	if got := summaryOf(newMachine(t).Next(*f)); got != "Releasing then Deferred allocatable_verify DeletionDenied" {
		t.Errorf("after the deadline of the verification: %s", got)
	}
}

// A pod that ends is not denied, by whomever it was deleted, and what is said of its fence is no denial of its deletion.
func TestAPodThatEndsIsNotDenied(t *testing.T) {
	for name, with := range map[string]func(f *Facts, d *Denial){
		"it ends":      func(f *Facts, _ *Denial) { pod(f, "exporter").Terminating = true },
		"of its fence": func(_ *Facts, d *Denial) { d.OfFence = true },
	} {
		f := afterRestart(t)
		f.Denied = denied(f, "exporter")
		d := f.Denied[pod(f, "exporter").UID]
		with(f, &d)
		f.Denied[pod(f, "exporter").UID] = d
		next := newMachine(t).Next(*f)
		if got := next.Record.Operation; got.Reason != ReasonInProgress || strings.Contains(got.Message, "denied") {
			t.Errorf("%s: %s: %s", name, got.Reason, got.Message)
		}
	}
}

func TestPodsStayAfterARestart(t *testing.T) {
	for _, tc := range []struct {
		name string
		with func(*Facts)
	}{
		{"that was not needed", func(f *Facts) { f.Host.Results[len(f.Host.Results)-1].Reason = "AlreadyDefault" }},
		{"of a DaemonSet that replaces its pods itself", func(f *Facts) {
			for i := range f.Members {
				f.Members[i].Uncontrolled = true
			}
		}},
		{"where no other would follow", func(f *Facts) {
			for i := range f.Members {
				f.Members[i].NoSuccessor = "a taint"
			}
		}},
		{"that started after it", func(f *Facts) {
			for i := range f.Members {
				f.Members[i].Pod.Started = f.Now.Add(time.Second)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := afterRestart(t)
			tc.with(f)
			if got := summaryOf(newMachine(t).Next(*f)); got != "Running runtime_verify InProgress" {
				t.Errorf("%s", got)
			}
		})
	}
}

// Otherwise the pods that it concerns would not be known.
func TestTheAnswerOfTheAgentIsAwaited(t *testing.T) {
	f := afterRestart(t)
	f.Host.Results = f.Host.Results[:len(f.Host.Results)-1]
	if got := summaryOf(newMachine(t).Next(*f)); got != "Running node_restart-runtime InProgress" {
		t.Errorf("%s", got)
	}
}

func TestUnusableCardsAreNotVerified(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changed []string
		with    func(*Facts)
		want    string
	}{
		{"a node with cards that offers none is not done", toolkitOnly, func(*Facts) {}, "Running allocatable_verify InProgress"},
		{"nor is one with a driver alone", driverOnly, func(f *Facts) { f.Host.Runtime.Default = topsv1.DefaultRuntime }, "Running allocatable_verify InProgress"},
		{"a driver is not blamed for the runtime", driverOnly, func(f *Facts) { f.Host.Runtime.Default = "runc" }, "Releasing then Done node_soak Succeeded"},
		{"a node without cards need not offer any", toolkitOnly, func(f *Facts) { *f.Host.Devices = 0 }, "Releasing then Done node_soak Succeeded"},
		{"nor one whose cards are not counted", toolkitOnly, func(f *Facts) { f.Host.Devices = nil }, "Releasing then Done node_soak Succeeded"},
		{"nor one without a plugin", toolkitOnly, func(f *Facts) {
			f.Members[slices.IndexFunc(f.Members, func(m Member) bool { return m.Component == upgradeplan.TargetDevicePlugin })].Component = "another"
		}, "Running node_soak InProgress"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := reach(t, "node_soak", tc.changed...)
			later(time.Minute)(&f)
			f.Operation.Before.Allocatable = map[string]int64{"enflame.com/gcu": 0}
			f.Node.Allocatable["enflame.com/gcu"] = 0
			tc.with(&f)
			if got := summaryOf(newMachine(t).Next(f)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// An operation that ended before its work was verified is remembered, so that another one follows.
func TestTheHistoryRecordsWhatWasTouched(t *testing.T) {
	for _, tc := range []struct {
		at      string
		touched bool
	}{{"node_evict", false}, {"node_restart-runtime", true}} {
		f := reach(t, tc.at, toolkitOnly...)
		f.Wanted.Abort = true
		later(time.Hour)(&f)
		for range 10 {
			f.Record = newMachine(t).Next(f).Record
			f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = false, ""
			pod(&f, "toolkit").ResourceVersion = "100000"
		}
		if h := f.History; len(h) != 1 || h[0].Touched != tc.touched {
			t.Errorf("aborted at %s: history %+v", tc.at, h)
		}
	}
}

// It may have started before a restart that this operation did not see.
func TestAPluginThatOffersNothingAndIsOlderThanTheOperationIsReplaced(t *testing.T) {
	f := reach(t, "allocatable_verify", toolkitOnly...)
	f.Node.Allocatable["enflame.com/gcu"] = 0
	plugin := pod(&f, "devicePlugin")
	plugin.Created = f.Operation.StartTime.Add(-time.Second)
	if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress DeletePod" {
		t.Errorf("an old one: %s", got)
	}
	plugin.Created = f.Operation.StartTime.Add(time.Second)
	if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress" {
		t.Errorf("a new one: %s", got)
	}
}

// The operation replaced the plugin while a restart was left to the administrator, who has restarted the runtime since. When the clock of
// the node is set back, the successor seems to be as old.
func TestAPluginThatOffersNothingAndIsOlderThanTheEngineIsReplacedOnce(t *testing.T) {
	f := reach(t, "allocatable_verify", toolkitOnly...)
	plugin := pod(&f, "devicePlugin")
	plugin.Created, plugin.NoCards = f.Operation.StartTime.Add(time.Minute), true
	f.Node.Allocatable["enflame.com/gcu"], f.Operation.Before.Allocatable["enflame.com/gcu"] = 7, 8
	if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress" {
		t.Errorf("it offers most of its cards: %s", got)
	}
	f.Node.Allocatable["enflame.com/gcu"] = 0
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Running allocatable_verify InProgress DeletePod" {
		t.Errorf("it offers none: %s", got)
	}
	f.Record, plugin.UID = d.Record, "next"
	if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress" {
		t.Errorf("the successor: %s", got)
	}
}

// The clock of the manager, which wrote the start of the operation, is hours ahead of that of the API server.
func TestAPluginIsReplacedOnceThoughTheClockOfTheManagerIsAhead(t *testing.T) {
	f := reach(t, "allocatable_verify", toolkitOnly...)
	f.Node.Allocatable["enflame.com/gcu"] = 0
	plugin := pod(&f, "devicePlugin")
	plugin.Created = f.Operation.StartTime.Add(-3 * time.Hour)
	f.Record = newMachine(t).Next(f).Record
	plugin.UID = "next"
	if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress" {
		t.Fatalf("its successor: %s", got)
	}
	f.Operation.Tasks[taskAt(&f, "allocatable_verify")].State = topsv1.OperationTaskPending
	if got := summaryOf(newMachine(t).Next(f)); got != "Running allocatable_verify InProgress DeletePod" {
		t.Errorf("its successor when the task begins again: %s", got)
	}
}

// However often operations are put off later.
func TestTheLastOperationThatTouchedAComponentIsKept(t *testing.T) {
	c := &changes{Facts: &Facts{}}
	put := func(id string, phase topsv1.OperationPhase, touched bool, component string) {
		c.Operation = &topsv1.OperationStatus{ID: id, Phase: phase, Touched: touched, Tasks: []topsv1.OperationTask{{Name: "n1_" + component + "_replace"}}}
		archive(c)
	}
	put("driver", topsv1.OperationAborted, true, "driver")
	put("toolkit-before", topsv1.OperationDone, true, "toolkit")
	put("toolkit", topsv1.OperationDone, true, "toolkit")
	for i := range 2 * historyLimit {
		put(fmt.Sprint("later-", i), topsv1.OperationDeferred, false, "driver")
	}
	if len(c.History) != historyLimit || c.History[0].ID != "driver" || c.History[1].ID != "toolkit" || c.History[historyLimit-1].ID != fmt.Sprint("later-", 2*historyLimit-1) {
		t.Errorf("%d: %s, %s, …, %s", len(c.History), c.History[0].ID, c.History[1].ID, c.History[len(c.History)-1].ID)
	}
	u := &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{History: c.History}}
	if !Unverified(u, "driver", setOf(time.Time{})) || Unverified(u, "toolkit", setOf(time.Time{})) {
		t.Errorf("unverified: driver %t, toolkit %t; want the driver", Unverified(u, "driver", setOf(time.Time{})), Unverified(u, "toolkit", setOf(time.Time{})))
	}
	if Unverified(u, "driver", setOf(time.Unix(0, 0))) {
		t.Error("a pod that came after the operation is held for the driver that it left")
	}
	for i := range 2 * historyLimit {
		put(fmt.Sprint("many-", i), topsv1.OperationDone, true, fmt.Sprint("component-", i))
	}
	put("newest", topsv1.OperationDeferred, false, "driver")
	if len(c.History) != historyLimit || c.History[historyLimit-1].ID != "newest" {
		t.Errorf("with evidence of many components: %d, the last is %s", len(c.History), c.History[len(c.History)-1].ID)
	}
}

// An API server whose CRDs were replaced by older ones drops the tasks: the agent may then still restart what the aborted operation asked for,
// also if its grant was dropped with them, or the newer CRDs came back and the tasks were recorded anew.
func TestANodeWhoseRecordLostItsTasksIsReleasedOnceNoRestartCanCome(t *testing.T) {
	const releasing = "Releasing then Aborted node_restart-runtime Aborted"
	for name, lose := range map[string]func(*topsv1.OperationStatus){
		"its tasks":               func(op *topsv1.OperationStatus) { op.Tasks = nil },
		"its tasks and its grant": func(op *topsv1.OperationStatus) { op.Tasks, op.Granted = nil, false },
		"all that says what it did": func(op *topsv1.OperationStatus) {
			op.Tasks, op.Granted, op.Touched = nil, false, false
		},
		"its tasks, which are recorded anew": func(op *topsv1.OperationStatus) {
			for i := range op.Tasks {
				op.Tasks[i] = topsv1.OperationTask{Name: op.Tasks[i].Name, State: topsv1.OperationTaskPending}
			}
			op.Tasks[0].State, op.Tasks[0].StartTime, op.Tasks[0].Attempts = topsv1.OperationTaskRunning, &op.Since, 1
		},
	} {
		f := reach(t, "node_restart-runtime", toolkitOnly...)
		lose(f.Operation)
		f.Wanted.Abort = true
		f.Record = newMachine(t).Next(f).Record
		later(time.Second)(&f)
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{{0, releasing}, {2*420*time.Second - 2*time.Second, releasing}, {2 * time.Second, releasing + " Uncordon"}} {
			later(tt.after)(&f)
			d := newMachine(t).Next(f)
			if got := summaryOf(d); got != tt.want {
				t.Errorf("without %s, after %s more: %s, want %s", name, tt.after, got, tt.want)
			}
			f.Record = d.Record
		}
	}
}

// What shows that a record is whole: no node waits longer for a restart that was not asked for.
func TestANodeOfAWholeRecordIsReleasedAtOnceBeforeARestart(t *testing.T) {
	for _, tc := range []struct{ task, want string }{
		{"node_precheck", "Aborted Aborted"},
		{"node_evict", "Releasing then Aborted node_evict Aborted Uncordon"},
		{"toolkit_replace", "Releasing then Aborted toolkit_replace Aborted Uncordon"},
	} {
		f := reach(t, tc.task, toolkitOnly...)
		f.Wanted.Abort = true
		for i := range f.Members {
			f.Members[i].Pod = nil // none to fence
		}
		if got := summaryOf(newMachine(t).Next(f)); got != tc.want {
			t.Errorf("at %s: %s, want %s", tc.task, got, tc.want)
		}
	}
}

// A task that is tried again has no start; meanwhile users' pods came back, so the node is emptied once more.
func TestANodeThatIsEmptiedAgainForATaskThatIsTriedAgainIsReleasedAtOnce(t *testing.T) {
	f := reach(t, "node_evict", toolkitOnly...)
	f.Operation.Touched, f.Wanted.Abort = true, true
	for i := range f.Operation.Tasks {
		if task := &f.Operation.Tasks[i]; task.Name == theNode+"_toolkit_replace" {
			task.Attempts, task.StartTime, task.State = 1, nil, topsv1.OperationTaskPending
		}
	}
	for i := range f.Members {
		f.Members[i].Pod = nil // none to fence
	}
	if got, want := summaryOf(newMachine(t).Next(f)), "Releasing then Aborted node_evict Aborted Uncordon"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The newer CRDs come back before the operation is aborted: the tasks are recorded anew, and the agent is at work.
func TestARestartThatOnlyTheAgentKnowsOfIsAwaited(t *testing.T) {
	f := reach(t, "node_restart-runtime", toolkitOnly...)
	f.Host.Results = append(f.Host.Results, topsv1.HostTaskResult{Operation: "op", Task: theNode + "_node_restart-runtime", Attempt: 1, State: topsv1.HostTaskRunning, Reason: ReasonInProgress})
	for i := range f.Operation.Tasks {
		if task := &f.Operation.Tasks[i]; task.Name == theNode+"_node_restart-runtime" {
			task.Attempts, task.StartTime, task.State = 0, nil, topsv1.OperationTaskPending
		}
	}
	f.Wanted.Abort = true
	for _, tt := range []struct{ state, want string }{
		{"Running", "Releasing then Aborted node_restart-runtime Aborted"},
		{"Running", "Releasing then Aborted node_restart-runtime Aborted"}, // it still goes on
		{"Done", "Releasing then Aborted node_restart-runtime Aborted Uncordon"},
	} {
		f.Host.Results[len(f.Host.Results)-1].State = topsv1.HostTaskState(tt.state)
		d := newMachine(t).Next(f)
		if got := summaryOf(d); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.state, got, tt.want)
		}
		f.Record = d.Record
		later(2 * 420 * time.Second)(&f)
	}
}

// systemctl restart hangs while docker stops: when that ends, docker restarts, and with it all pods that came meanwhile.
func TestANodeIsNotReleasedUnderARestartThatTheAgentReportsAsInProgress(t *testing.T) {
	const releasing = "Releasing then Aborted node_restart-runtime Aborted"
	for _, record := range []string{"whole", "lost", "of a second attempt"} {
		f := reach(t, "node_restart-runtime", toolkitOnly...)
		result("node_restart-runtime", "Running")(&f)
		reported := &f.Host.Results[len(f.Host.Results)-1]
		reported.Reason, reported.Message = ReasonInProgress, "find out what it waits for"
		f.Wanted.Abort = true
		f.Record = newMachine(t).Next(f).Record
		switch record {
		case "lost": // by older CRDs
			f.Operation.Tasks = nil
		case "of a second attempt":
			f.Operation.Tasks[taskAt(&f, "node_restart-runtime")].Attempts = 2
		}
		for _, tt := range []struct {
			name     string
			with     func()
			want     string
			released bool
		}{
			{"still", goesBy(&f, time.Hour), releasing, false},
			{"still, later", goesBy(&f, 5*time.Hour), releasing, false},
			{"and its agent is nearly silent", func() { f.Now = f.Now.Add(180*time.Second - time.Second) }, releasing, false},
			{"its agent is silent", func() { f.Now = f.Now.Add(time.Second) }, releasing + " Uncordon", true},
			{"its agent is back", goesBy(&f, time.Second), releasing, false},
			{"the engine waits for a person", func() { reported.Reason = "NotBack" }, releasing + " Uncordon", true},
			{"it goes on again", func() { reported.Reason = ReasonInProgress }, releasing, false},
			{"it has failed", func() { reported.State = topsv1.HostTaskFailed }, releasing + " Uncordon", true},
		} {
			tt.with()
			d := newMachine(t).Next(f)
			f.Record = d.Record
			if got, says := summaryOf(d), strings.Count(f.Operation.Message, notReleased+reported.Message); got != tt.want || (says == 1) == tt.released {
				t.Errorf("record %s, %s: %s, want %s; it says: %s", record, tt.name, got, tt.want, f.Operation.Message)
			}
			if d.After < 10*time.Second && !tt.released && tt.name != "and its agent is nearly silent" {
				t.Errorf("record %s, %s: it looks again after %s", record, tt.name, d.After)
			}
		}
	}
}

func goesBy(f *Facts, d time.Duration) func() { return func() { later(d)(f) } }

// Its other tasks had nothing to do: the deletion is the first thing that it does to the node.
func TestAnOperationThatReplacesAPluginWithoutCardsHasTouchedTheNode(t *testing.T) {
	f := reach(t, "allocatable_verify", toolkitOnly...)
	f.Operation.Touched, f.Node.Allocatable["enflame.com/gcu"] = false, 0
	pod(&f, "devicePlugin").Created = f.Operation.StartTime.Add(-time.Second)
	d := newMachine(t).Next(f)
	if got := summaryOf(d); got != "Running allocatable_verify InProgress DeletePod" || !d.Record.Operation.Touched {
		t.Errorf("%s, touched: %t", got, d.Record.Operation.Touched)
	}
}
