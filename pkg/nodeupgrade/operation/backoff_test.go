package operation

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

type records = []topsv1.OperationRecord

// withHistory returns a NodeUpgrade with ended operations, and with the default runtime that its
// agent reports.
func withHistory(runtime string, history records) *topsv1.NodeUpgrade {
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: theNode}}
	u.Status.History, u.Status.Host = history, &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: runtime}}
	return u
}

func TestBackoffDoublesForEachOperationInVain(t *testing.T) {
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := func(ago time.Duration, phase topsv1.OperationPhase) topsv1.OperationRecord {
		return topsv1.OperationRecord{Phase: phase, Revision: "r", EndTime: metav1.NewTime(end.Add(-ago))}
	}
	deferred, done := ended(0, topsv1.OperationDeferred), ended(0, topsv1.OperationDone)
	restarted, inUse, other := done, ended(-time.Minute, topsv1.OperationDeferred), done
	restarted.Restarted, inUse.Reason, other.Revision = true, ReasonCardsInUse, "other"
	for name, tc := range map[string]struct {
		runtime string
		history records
		want    time.Duration // after the end, -1 for at once
	}{
		"one":                                   {"runc", records{deferred}, 5 * time.Minute},
		"three":                                 {"runc", slices.Repeat(records{deferred}, 3), 20 * time.Minute},
		"twenty":                                {"runc", slices.Repeat(records{deferred}, 20), 2 * time.Hour},
		"one after a success":                   {"runc", records{deferred, done, deferred}, 5 * time.Minute},
		"a success":                             {"runc", records{deferred, done}, -1},
		"a runtime that is set back":            {"runc", records{restarted}, 5 * time.Minute},
		"again and again":                       {"runc", slices.Repeat(records{restarted}, 3), 20 * time.Minute},
		"with a deferral between":               {"runc", records{restarted, deferred, restarted}, 20 * time.Minute},
		"for good":                              {"runc", slices.Repeat(records{restarted}, 20), 2 * time.Hour},
		"a runtime that stays":                  {"enflame", slices.Repeat(records{restarted}, 3), -1},
		"a runtime that needed no restart":      {"runc", records{restarted, done}, -1},
		"a restart for another revision":        {"runc", records{other}, -1},
		"a node in use is not kept from asking": {"runc", records{inUse}, -1},
		"it takes nothing back of what was before": {"runc", records{deferred, deferred, inUse}, 10 * time.Minute},
	} {
		at, _ := Backoff(withHistory(tc.runtime, tc.history), "r", end)
		if tc.want < 0 && !at.IsZero() || tc.want >= 0 && !at.Equal(end.Add(tc.want)) {
			t.Errorf("%s: until %s, want %s later than %s", name, at, tc.want, end)
		}
	}
	if at, _ := Backoff(withHistory("runc", records{deferred}), "other", end); !at.IsZero() {
		t.Errorf("another revision waits until %s", at)
	}
}

// Its manager's clock was ahead, or has been set back since.
func TestAnEndInTheFutureIsNotWaitedFor(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]time.Time{time.Minute: now.Add(6 * time.Minute), 3 * time.Hour: {}} {
		at, last := Backoff(withHistory("runc", records{{Phase: topsv1.OperationDeferred, Revision: "r", EndTime: metav1.NewTime(now.Add(ahead))}}), "r", now)
		if !at.Equal(want) || last == nil {
			t.Errorf("an end %s ahead: until %s, want %s; last %+v", ahead, at, want, last)
		}
	}
}

func TestARuntimeThatIsSetBackIsReported(t *testing.T) {
	at := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	u := withHistory("runc", records{{ID: "op", Phase: topsv1.OperationDone, Revision: "r", EndTime: at, Restarted: true}})
	setBack := func() string { _, last := Backoff(u, "r", at.Time); return SetBack(u, last) }
	if got, want := setBack(), "operation op restarted docker for default runtime enflame and verified it, and the default runtime is runc again: "+
		"look for another tool on node n1 that writes the configuration of docker"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	u.Status.History = append(u.Status.History, topsv1.OperationRecord{Phase: topsv1.OperationDeferred, Revision: "r", EndTime: at})
	if got := setBack(); got != "" {
		t.Errorf("the last one was deferred: %q", got)
	}
}

// The history says whether the engine was restarted.
func TestARestartIsRecorded(t *testing.T) {
	for _, reason := range []string{topsv1.ReasonRestarted, "AlreadyDefault"} {
		f := afterRestart(t)
		f.Host.Results[len(f.Host.Results)-1].Reason = reason
		f.Wanted.Abort = true
		for range 10 {
			f.Record = newMachine(t).Next(*f).Record
			f.Node.Cordon.Unschedulable, f.Node.Cordon.Mark = false, ""
			pod(f, "toolkit").ResourceVersion = "100000"
		}
		if h := f.History; len(h) != 1 || h[0].Restarted != (reason == topsv1.ReasonRestarted) {
			t.Errorf("%s: history %+v", reason, h)
		}
	}
}

func TestTheMessageNamesWhatARestartStops(t *testing.T) {
	const then = "; then pods of device plugin, exporter and gfd that started before are replaced: they have no cards"
	for _, tc := range []struct {
		stops      *bool
		want, then string
	}{
		{nil, " (this may stop all containers of the node)", then},
		{ptr.To(true), " (this stops all containers of the node)", ""},
		{ptr.To(false), "", then},
	} {
		u := withHistory("runc", nil)
		u.Status.Host.Runtime.RestartStopsContainers, u.Status.Agent = tc.stops, &topsv1.AgentStatus{RestartsRuntime: ptr.To(false)}
		want := `the default runtime of docker on node n1 is "runc": restart it on the node` + tc.want +
			", for example with: systemctl restart docker; the node agent leaves this to the administrator (--restart-runtime=false)" + tc.then
		if got := LeftToAdministrator(u); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What an operation reported before its agent was told to restart the runtime is over.
func TestAnAgentThatRestartsTheRuntimeLeavesNothingToTheAdministrator(t *testing.T) {
	restart := upgradeplan.Task{Host: theNode, Target: upgradeplan.TargetNode, Action: upgradeplan.ActionRestartRuntime}.String()
	u := withHistory("runc", records{{ID: "a", Phase: topsv1.OperationDone, Reason: ReasonLeftToAdministrator, Message: "restart docker", Result: topsv1.OperationResult{Done: []string{restart}}}})
	if got := LeftToAdministrator(u); got != "restart docker" {
		t.Errorf("of an agent that does not say what it does: %q", got)
	}
	u.Status.Agent = &topsv1.AgentStatus{RestartsRuntime: ptr.To(true)}
	if got := LeftToAdministrator(u); got != "" {
		t.Errorf("%q", got)
	}
}

func TestThePodsOfAnOperationAreThoseItReplacesAndThoseWithTheDeviceOpen(t *testing.T) {
	own, user := topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Name: "driver"}}, topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Name: "training"}}
	op := &topsv1.OperationStatus{Tasks: []topsv1.OperationTask{{Pod: &own}, {Users: []topsv1.NamedPod{user}}}}
	if got := Named(op); len(got) != 2 || got[0].Name != own.Name || got[1].Name != user.Name {
		t.Errorf("%+v", got)
	}
}
