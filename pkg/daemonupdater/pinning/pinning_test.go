package pinning

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

const exporter, driver = "kube-system/exporter", "kube-system/driver"

// factsOf returns a gated group of an exporter and a driver, with these nodes at their targets.
func factsOf(nodes ...string) *Facts {
	all := map[string]*rollout.Node{}
	for _, name := range nodes {
		all[name] = &rollout.Node{Name: name, Machine: "m-" + name, Pods: []rollout.Pod{{Member: 0, UID: "x", Revision: "new"}, {Member: 1, UID: "y", Revision: "new"}}}
	}
	in := &rollout.Input{Now: fixture.Epoch, Members: []rollout.Member{{Key: exporter, Target: "new"}, {Key: driver, Target: "new", Heavy: true}}}
	return &Facts{Input: in, Gated: func(int) bool { return true }, Kept: func(int, string) bool { return true },
		Node:   func(name string) *rollout.Node { return all[name] },
		Before: func(int, string) (string, string) { return "old", "" },
	}
}

// words are pins as node=revision, with ! if they count as failed.
func words(pins []rollout.Pin) (list []string) {
	for _, p := range pins {
		word := p.Node + "=" + p.Revision
		if p.Failed {
			word += "!"
		}
		list = append(list, word)
	}
	return list
}

func pinOf(node string, change ...func(*rollout.Pin)) rollout.Pin {
	p := rollout.Pin{Node: node, Machine: "m-" + node, Member: exporter, Revision: "old", From: "new", Failed: true}
	for _, f := range change {
		f(&p)
	}
	return p
}

func failureOf(node string, change ...func(*rollout.Failure)) rollout.Failure {
	f := rollout.Failure{Node: node, Reason: rollout.ReasonCrashLooping, Targets: []rollout.Target{{Member: exporter, Revision: "new"}}}
	for _, c := range change {
		c(&f)
	}
	return f
}

// both blames the driver too.
func both(f *rollout.Failure) {
	f.Targets = append(f.Targets, rollout.Target{Member: driver, Revision: "new"})
}

// ofDriver makes a pin one of the driver.
func ofDriver(p *rollout.Pin) { p.Member = driver }

// asks has node a ask for a revision of its first pod, some time after it was pinned.
func asks(f *Facts, revision string, after time.Duration, strategy daemonset.Strategy) {
	f.Input.Settings.Strategy, f.Input.Ledger.Pins[0].Requested = strategy, fixture.Epoch
	f.Node("a").Pods[0].Request = &topsv1.UpgradeRequest{Pod: topsv1.NamespacedRef{UID: "x"}, Revision: revision, RequestTime: fixture.Ago(-after)}
}

func undo(node string) Request { return Request{ID: "1", Node: node, Verb: observed.VerbUndo} }

func TestNextOf(t *testing.T) {
	failed := func(f *Facts, list ...rollout.Failure) { f.RollsBack, f.Input.Ledger.Failures = true, list }
	pinned := func(f *Facts, list ...rollout.Pin) { f.Input.Ledger.Pins = list }
	for _, c := range []struct {
		name    string
		change  func(*Facts)
		want    []string
		refused string
	}{
		{"a person undoes one", func(f *Facts) { f.Requests = []Request{undo("a")} }, []string{"a=old"}, ""},
		{"one that failed stays a failure for the halt", func(f *Facts) {
			f.Requests = []Request{undo("a")}
			f.Input.Ledger.Failures = []rollout.Failure{failureOf("a")}
		}, []string{"a=old!"}, ""},
		{"not without the gate", func(f *Facts) { f.Requests = []Request{undo("a")}; f.Gated = func(int) bool { return false } }, nil, ReasonNoGate},
		{"what an operation replaces too", func(f *Facts) { f.Requests = []Request{{ID: "1", Node: "a", Member: 1, Verb: observed.VerbUndo}} }, []string{"a=old"}, ""},
		{"on a node that an operation keeps cordoned", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Member: 1, Verb: observed.VerbUndo}}
			f.Node("a").Operation = &rollout.Operation{ID: "op", Ours: true, KeptCordoned: true}
		}, []string{"a=old"}, ""},
		{"not where that of another group does", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Member: 1, Verb: observed.VerbUndo}}
			f.Node("a").Operation = &rollout.Operation{ID: "op", KeptCordoned: true}
		}, nil, ReasonOperationAtWork},
		{"not during an operation", func(f *Facts) {
			f.Requests = []Request{undo("a")}
			f.Node("a").Operation = &rollout.Operation{ID: "op"}
		}, nil, ReasonOperationAtWork},
		{"not where the revision is not yet", func(f *Facts) { f.Requests = []Request{undo("a")}; f.Node("a").Pods[0].Revision = "old" }, nil, ReasonNotAtTarget},
		{"where its pod is on its way", func(f *Facts) {
			f.Requests = []Request{undo("a")}
			f.Node("a").Pods[0] = rollout.Pod{UID: "x", Revision: "old", Terminating: true}
		}, []string{"a=old"}, ""},
		{"not without an earlier revision", func(f *Facts) {
			f.Requests, f.Before = []Request{undo("a")}, func(int, string) (string, string) { return "", "none is kept" }
		}, nil, ReasonNoEarlierRevision},
		{"not where it does not run", func(f *Facts) { f.Requests = []Request{undo("z")} }, nil, ReasonNodeGone},
		{"not from what it has instead of the target", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbUndo, From: "old"}}
			f.Node("a").Pods[0].Revision = "old"
		}, nil, ReasonNotAtTarget},
		{"not again once its pin has ended", func(f *Facts) { f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbUndo, Begun: true}} }, nil, "RevisionChanged"},
		{"not more than there is room for", func(f *Facts) {
			f.Requests = []Request{undo("a")}
			for i := range maxPins {
				f.Input.Ledger.Pins = append(f.Input.Ledger.Pins, pinOf(fmt.Sprintf("n%03d", i)))
			}
		}, nil, ReasonTooManyPins},
		{"twice is once", func(f *Facts) { f.Requests = []Request{undo("a")}; pinned(f, pinOf("a")) }, []string{"a=old!"}, ""},
		{"a retry ends it", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbRetry}}
			pinned(f, pinOf("a"), pinOf("b"))
		}, []string{"b=old!"}, ""},
		{"also after it failed on its way back", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbRetry}}
			failed(f, failureOf("a"), failureOf("b"))
			pinned(f, pinOf("a"))
		}, []string{"b=old!"}, ""},
		{"a retry of one of two keeps the other pin, and what both failed of", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbRetry}}
			failed(f, failureOf("a", both))
			pinned(f, pinOf("a"), pinOf("a", ofDriver))
		}, []string{"a=old!"}, ""},
		{"a retry of the last one forgives what both failed of", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Member: 1, Verb: observed.VerbRetry}}
			failed(f, failureOf("a", both))
			pinned(f, pinOf("a", ofDriver))
		}, nil, ""},
		{"not during an operation, whose failure it is", func(f *Facts) {
			f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbRetry}}
			f.Node("a").Operation = &rollout.Operation{ID: "op"}
			pinned(f, pinOf("a"))
		}, []string{"a=old!"}, ReasonOperationAtWork},
		{"what was asked for at the node", func(f *Facts) { f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbUndo, From: "new"}} }, []string{"a=old"}, ""},
		{"not from a revision that is not the target any more", func(f *Facts) { f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbUndo, From: "earlier"}} }, nil, "RevisionChanged"},
		{"a later request at the node ends it", func(f *Facts) { pinned(f, pinOf("a")); asks(f, "new", time.Minute, daemonset.OTA) }, nil, ""},
		{"one from before does not", func(f *Facts) { pinned(f, pinOf("a")); asks(f, "new", 0, daemonset.OTA) }, []string{"a=old!"}, ""},
		{"nor one for another revision", func(f *Facts) { pinned(f, pinOf("a")); asks(f, "newer", time.Minute, daemonset.OTA) }, []string{"a=old!"}, ""},
		{"nor one that is not OTA", func(f *Facts) { pinned(f, pinOf("a")); asks(f, "new", time.Minute, daemonset.AdvancedRollingUpdate) }, []string{"a=old!"}, ""},
		{"another target ends it", func(f *Facts) { pinned(f, pinOf("a")); f.Input.Members[0].Target = "newer" }, nil, ""},
		{"the target of another component does not", func(f *Facts) { pinned(f, pinOf("a")); f.Input.Members[1].Target = "newer" }, []string{"a=old!"}, ""},
		{"another machine ends it", func(f *Facts) { pinned(f, pinOf("a", func(p *rollout.Pin) { p.Machine = "other" })) }, nil, ""},
		{"a deleted Node object does not", func(f *Facts) { pinned(f, pinOf("z")) }, []string{"z=old!"}, ""},
		{"without the gate it ends", func(f *Facts) { pinned(f, pinOf("a")); f.Gated = func(int) bool { return false } }, nil, ""},
		{"a removed DaemonSet ends it", func(f *Facts) { pinned(f, pinOf("a", func(p *rollout.Pin) { p.Member = "kube-system/gone" })) }, nil, ""},
		{"a resume forgives it", func(f *Facts) { pinned(f, pinOf("a")); f.Input.Resume = "now" }, []string{"a=old"}, ""},
		{"while blocked all stays", func(f *Facts) {
			pinned(f, pinOf("a"))
			f.Input.Blocked, f.Input.Members[0].Target = &rollout.Blocked{}, ""
		}, []string{"a=old!"}, ""},
		{"while config/gate is missing too", func(f *Facts) {
			f.PolicyMissing, f.Gated, f.Requests = true, func(int) bool { return false }, []Request{undo("b")}
			pinned(f, pinOf("a"))
		}, []string{"a=old!"}, ""},
		{"a resume while it is missing forgives it", func(f *Facts) {
			f.PolicyMissing, f.Gated = true, func(int) bool { return false }
			pinned(f, pinOf("a"))
			f.Input.Resume = "now"
		}, []string{"a=old"}, ""},
		{"the policy brings failed nodes back", func(f *Facts) { failed(f, failureOf("a"), failureOf("b")) }, []string{"a=old!", "b=old!"}, ""},
		{"only if it says so", func(f *Facts) { failed(f, failureOf("a")); f.RollsBack = false }, nil, ""},
		{"not while paused", func(f *Facts) { failed(f, failureOf("a")); f.Input.Settings.Paused = true }, nil, ""},
		{"not one that was lost", func(f *Facts) {
			failed(f, failureOf("a", func(x *rollout.Failure) { x.Reason = rollout.ReasonNodeLost }))
		}, nil, ""},
		{"not one that failed on its way back", func(f *Facts) { failed(f, failureOf("a")); pinned(f, pinOf("a")) }, []string{"a=old!"}, ""},
		{"one that an operation failed, with all that it changed", func(f *Facts) {
			failed(f, failureOf("a", both))
			f.Node("a").Operation = &rollout.Operation{ID: "op", Ours: true, KeptCordoned: true}
		}, []string{"a=old!", "a=old!"}, ""},
		{"also what it did not get to", func(f *Facts) { failed(f, failureOf("a", both)); f.Node("a").Pods[0].Revision = "old" }, []string{"a=old!", "a=old!"}, ""},
		{"not where something else was before", func(f *Facts) { failed(f, failureOf("a", both)); f.Node("a").Pods[0].Revision = "older" }, nil, ""},
		{"not one that a person resumes", func(f *Facts) { failed(f, failureOf("a")); f.Input.Resume = "now" }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := factsOf("a", "b")
			c.change(f)
			before := f.Input.Ledger
			next := decidePins(f)
			if c.refused == ReasonTooManyPins {
				next.Pins = nil
			}
			if diff := cmp.Diff(c.want, words(next.Pins), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pins (-want +got):\n%s", diff)
			}
			got := ""
			for _, refusal := range next.Refused {
				got = refusal.Reason
			}
			if got != c.refused {
				t.Errorf("refused %+v, want %q", next.Refused, c.refused)
			}
			for _, p := range next.Pins {
				for _, failure := range next.Failures {
					if failure.Node == p.Node && len(before.Pins) == 0 {
						t.Errorf("%s is pinned and failed", p.Node)
					}
				}
			}
		})
	}
}

// There is room for one: the request that takes the place of one that was withdrawn is confirmed too.
func TestEachRequestIsConfirmed(t *testing.T) {
	for withdrawn, want := range map[string][]string{"": {"a=old"}, "a": {"b=old"}, "ab": nil} {
		f := factsOf("a", "b")
		f.Requests = []Request{undo("a"), undo("b")}
		for i := range maxPins - 1 {
			f.Input.Ledger.Pins = append(f.Input.Ledger.Pins, pinOf(fmt.Sprintf("n%03d", i)))
		}
		update, err := DecideConfirmed(f, func(key RequestKey) (bool, error) { return !strings.Contains(withdrawn, key.Node), nil })
		got := words(slices.DeleteFunc(update.Pins, func(p rollout.Pin) bool { return p.Failed }))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("withdrawn: %q: %v, pins (-want +got):\n%s", withdrawn, err, diff)
		}
	}
	f := factsOf("a")
	f.Requests = []Request{undo("a")}
	unreadable := errors.New("no connection")
	if update, err := DecideConfirmed(f, func(RequestKey) (bool, error) { return false, unreadable }); !errors.Is(err, unreadable) || len(update.Pins) > 0 {
		t.Errorf("%+v, %v; want the error", update, err)
	}
}

func TestAPinWhoseRevisionIsGoneSaysSo(t *testing.T) {
	f := factsOf("a")
	f.Input.Ledger.Pins, f.Kept = []rollout.Pin{pinOf("a")}, func(int, string) bool { return false }
	if pins := decidePins(f).Pins; len(pins) != 1 || !strings.Contains(pins[0].Message, "no longer exists") {
		t.Errorf("pins %+v", pins)
	}
}

func TestBefore(t *testing.T) {
	ds := fixture.DaemonSet("exporter")
	history := func(hashes ...string) []*appsv1.ControllerRevision {
		list := fixture.RevisionsOf(ds, hashes...)
		for i := range list {
			list[i].Revision, list[i].CreationTimestamp = int64(i+1), metav1.NewTime(fixture.Epoch.Add(time.Duration(i)*time.Hour))
			list[i].Data.Raw, _ = json.Marshal(map[string]any{"spec": map[string]any{"template": ds.Spec.Template}})
		}
		return list
	}
	at := func(hours int) *time.Time {
		floor := fixture.Epoch.Add(time.Duration(hours)*time.Hour - time.Minute)
		return &floor
	}
	for _, c := range []struct {
		name string
		h    RevisionHistory
		want string
		why  string
	}{
		{"the one that the node had", RevisionHistory{Had: "a", Good: "b"}, "a", ""},
		{"the last known good one, if the node had the target", RevisionHistory{Had: "d", Good: "b"}, "b", ""},
		{"the one before, if the target is the last known good one", RevisionHistory{Had: "d", Good: "d"}, "c", ""},
		{"one that is kept", RevisionHistory{Had: "trimmed"}, "c", ""},
		{"the one before, after a rollback that did not change this DaemonSet", RevisionHistory{Had: "d", Good: "d", RolledBack: true}, "c", ""},
		{"none below the floor", RevisionHistory{Had: "a", Floor: at(1)}, "", "rollbackNotBefore"},
		{"one that is as old as the floor", RevisionHistory{Had: "b", Floor: at(1)}, "b", ""},
		{"one that became good after the floor", RevisionHistory{Good: "a", Since: fixture.Epoch.Add(5 * time.Hour), Floor: at(2)}, "a", ""},
		{"none that was good before the floor", RevisionHistory{Good: "c", Since: fixture.Epoch, Floor: at(1)}, "", "rollbackNotBefore"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.h.DaemonSet, c.h.Revisions, c.h.Target = ds, history("a", "b", "c", "d"), "d"
			hash, why := EarlierRevision(&c.h)
			if hash != c.want || !strings.Contains(why, c.why) || hash == "" && why == "" {
				t.Errorf("got %q, %q", hash, why)
			}
		})
	}
	rolledBack := history("a", "b", "c")
	rolledBack[1].Revision = 4 // c was rejected, and b is the target again
	for _, had := range []string{"b", "c", ""} {
		if hash, why := EarlierRevision(&RevisionHistory{DaemonSet: ds, Revisions: rolledBack, Target: "b", Had: had, Good: "b", RolledBack: true}); hash != "a" {
			t.Errorf("a node that had %q goes back to %q: %q; want a, before the rejected revision", had, hash, why)
		}
	}
	if hash, why := EarlierRevision(&RevisionHistory{DaemonSet: ds, Revisions: history("d"), Target: "d"}); hash != "" || !strings.Contains(why, "is kept") {
		t.Errorf("a DaemonSet with one revision goes back to %q: %q", hash, why)
	}
}

func TestTheRefusalOfOneNodeIsNotThatOfAnotherWithTheSameID(t *testing.T) {
	f := factsOf("a", "b")
	f.Requests = []Request{{ID: "1", Node: "a", Verb: observed.VerbUndo, From: "odd"}, {ID: "1", Node: "b", Verb: observed.VerbUndo, From: "new"}}
	if next := decidePins(f); len(next.Refused) != 1 || next.Refused[RequestKey{"a", "1"}].Reason != "RevisionChanged" || len(next.Pins) != 1 {
		t.Errorf("pins %+v, refused %+v", next.Pins, next.Refused)
	}
}
