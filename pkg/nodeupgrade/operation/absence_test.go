package operation

import (
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TestDeadlinesDoNotRunWhileNoManagerWorks: they count from when a manager is back.
func TestDeadlinesDoNotRunWhileNoManagerWorks(t *testing.T) {
	back := func(ago time.Duration) func(*Facts) {
		return func(f *Facts) { f.WorkedSince = f.Now.Add(-ago) }
	}
	for _, tt := range []struct {
		name string
		with []func(*Facts)
		want string
	}{
		{"a task", []func(*Facts){later(time.Hour), back(0)}, "Running driver_verify InProgress"},
		{"until its deadline after that", []func(*Facts){later(time.Hour), back(5 * time.Minute)}, "Failed held driver_verify VerifyFailed"},
		{"an operation", []func(*Facts){later(3 * time.Hour), back(0)}, "Running driver_verify InProgress"},
		{"until there was time for one more pod", []func(*Facts){later(3 * time.Hour), back(10 * time.Minute)}, "Failed held driver_verify OperationDeadline"},
		{"a node that is offline", []func(*Facts){offline, later(time.Hour), back(time.Minute)}, "Running driver_verify NodeOffline"},
		{"until it is lost after that", []func(*Facts){offline, later(time.Hour), back(15 * time.Minute)}, "Failed held driver_verify NodeLost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := decides(t, reach(t, "driver_verify", driverOnly...), tt.want, tt.with...)
			if !Over(d.Record.Operation) && !d.Record.Operation.Held && (d.After == 0 || d.After > tick) {
				t.Errorf("the next pass is in %s: it would look like a break", d.After)
			}
		})
	}
}

// TestWhatHasADeadlineIsLookedAtOften: otherwise each pass would look like the end of an absence, and move the deadline.
func TestWhatHasADeadlineIsLookedAtOften(t *testing.T) {
	restarting := reach(t, "node_restart-runtime", toolkitOnly...)
	for _, tt := range []struct {
		name  string
		facts Facts
		with  []func(*Facts)
		want  string
		never bool
	}{
		{"an aborted restart that may go on", restarting, []func(*Facts){func(f *Facts) { f.Wanted.Abort = true }, stepped}, "Releasing then Aborted node_restart-runtime Aborted", false},
		{"one that another operation replaces", restarting, []func(*Facts){func(f *Facts) { f.Wanted.ID = "next" }, stepped}, "Releasing then Aborted node_restart-runtime Superseded", false},
		{"a prepared operation whose node is offline", prepared(t, everything...), []func(*Facts){offline}, "Running NodeOffline", false},
		{"one whose agent is silent", prepared(t, everything...), []func(*Facts){func(f *Facts) { f.HostSince = f.Now.Add(-10 * time.Minute) }}, "Running node_precheck PrecheckFailed", false},
		{"one that waits for its slot", prepared(t, everything...), nil, "Running AwaitingSlot", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := decides(t, tt.facts, tt.want, tt.with...)
			if often := d.After > 0 && d.After <= tick; often == tt.never {
				t.Errorf("the next pass is in %s", d.After)
			}
		})
	}
}

// setBack sets the clock back by three hours, which the manager has just noticed.
func setBack(f *Facts) {
	later(-3 * time.Hour)(f)
	f.WorkedSince = f.Now
}

func TestAPullIsTriedAgainThoughTheClockWasSetBack(t *testing.T) {
	f := reach(t, "driver_prepull", everything...)
	result("driver_prepull", "Failed")(&f)
	setBack(&f)
	for _, step := range []struct {
		after    time.Duration
		attempts int32
	}{{pullInterval - time.Second, 1}, {time.Second, 2}} {
		later(step.after)(&f)
		if got := newMachine(t).Next(f).Record.Operation.Tasks[taskAt(&f, "driver_prepull")].Attempts; got != step.attempts {
			t.Errorf("attempt %d, want %d", got, step.attempts)
		}
	}
}

func TestAPrecheckWaitsForCardsForAsLongThoughTheClockWasSetBack(t *testing.T) {
	f := reach(t, "node_precheck", everything...)
	f.Node.Allocatable["enflame.com/gcu"] = 0
	setBack(&f)
	for _, step := range []struct {
		after  time.Duration
		passed bool
	}{{offerGrace - time.Second, false}, {time.Second, true}} {
		later(step.after)(&f)
		if got := newMachine(t).Next(f).Record.Operation.Before != nil; got != step.passed {
			t.Errorf("passed %t, want %t", got, step.passed)
		}
	}
}

// TestAClockThatJumpsFailsNothingAndSkipsNoSoak: a jump is a break, so that WorkedSince is when it was noticed.
func TestAClockThatJumpsFailsNothingAndSkipsNoSoak(t *testing.T) {
	for _, tt := range []struct {
		task, want, after string
		within            time.Duration
	}{
		{"node_soak", "Running node_soak InProgress", "Releasing then Done node_soak Succeeded", time.Minute},
		{"driver_verify", "Running driver_verify InProgress", "Failed held driver_verify VerifyFailed", 5 * time.Minute},
	} {
		for name, by := range map[string]time.Duration{"ahead": 3 * time.Hour, "back": -3 * time.Hour} {
			t.Run(tt.task+" "+name, func(t *testing.T) {
				f := reach(t, tt.task, driverOnly...)
				later(by)(&f)
				f.WorkedSince = f.Now
				for _, step := range []struct {
					after time.Duration
					want  string
				}{{0, tt.want}, {tt.within - time.Second, tt.want}, {time.Second, tt.after}} {
					later(step.after)(&f)
					if d := newMachine(t).Next(f); summaryOf(d) != step.want {
						t.Fatalf("%s, want %s: %s", summaryOf(d), step.want, d.Record.Operation.Message)
					}
				}
			})
		}
	}
}

// What a policy allows its tasks, and a node to be offline, an operation has time for.
func TestThePolicyOfAnOperationHasTime(t *testing.T) {
	policy := func(edit func(*topsv1.NodeOperation)) func(*Facts) { return func(f *Facts) { edit(f.Wanted) } }
	online := func(f *Facts) { f.Node.Ready, f.Node.Since = true, f.Now }
	offlineFor := func(seconds int32) func(*Facts) {
		return policy(func(o *topsv1.NodeOperation) { o.Deadlines.LostSeconds = seconds })
	}
	soaks := policy(func(o *topsv1.NodeOperation) { o.Deadlines.SoakSeconds = 3 * 3600 })
	for _, tt := range []struct {
		name, task string
		with       []func(*Facts)
		want       string
	}{
		{"a soak of hours", "node_soak", []func(*Facts){soaks, later(2 * time.Hour)}, "Running node_soak InProgress"},
		{"which ends", "node_soak", []func(*Facts){soaks, later(9 * time.Hour)}, "Failed held node_soak OperationDeadline"},
		{"a drain that waits for hours", "node_evict", []func(*Facts){policy(func(o *topsv1.NodeOperation) { o.Drain = &topsv1.DrainPolicy{TimeoutSeconds: 4 * 3600} }), later(3 * time.Hour)},
			"Running node_evict InProgress Evict"},
		{"a node that may be offline for a day", "driver_verify", []func(*Facts){offlineFor(24 * 3600), offline, later(23 * time.Hour)}, "Running driver_verify NodeOffline"},
		{"which is back", "driver_verify", []func(*Facts){offlineFor(24 * 3600), later(23 * time.Hour), online}, "Running driver_verify InProgress"},
		{"which is lost", "driver_verify", []func(*Facts){offlineFor(24 * 3600), offline, later(24 * time.Hour)}, "Failed held driver_verify NodeLost"},
		{"which is offline again and again", "driver_verify", []func(*Facts){offlineFor(24 * 3600), later(27 * time.Hour), online}, "Failed held driver_verify OperationDeadline"},
		{"one that goes offline in the last minutes", "driver_verify", []func(*Facts){later(2*time.Hour - time.Minute), offline, later(5 * time.Minute)}, "Running driver_verify NodeOffline"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decides(t, reach(t, tt.task, driverOnly...), tt.want, tt.with...)
		})
	}
}
