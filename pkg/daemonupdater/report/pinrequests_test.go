package report

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestARollbackRequestOfANodeIsAnswered(t *testing.T) {
	pinned := func(in *rollout.Input) {
		in.Ledger.Pins = []rollout.Pin{{Node: "a", Member: "kube-system/driver", Revision: fixture.OldHash, From: fixture.NewHash,
			Reason: rollout.ReasonUndone, Message: "kept"}}
	}
	pinnedWithAnother := func(in *rollout.Input) {
		pinned(in)
		in.Members = append(in.Members, rollout.Member{Key: "kube-system/a", Target: fixture.NewHash})
		in.Nodes[0].Pods = append(in.Nodes[0].Pods, rollout.Pod{Member: 1, Name: "g-a", UID: "gfd-a", Revision: fixture.OldHash, Available: true})
		other := in.Ledger.Pins[0]
		other.Member, other.Message = "kube-system/a", "the other is kept"
		in.Ledger.Pins = append([]rollout.Pin{other}, in.Ledger.Pins...)
	}
	for _, tt := range []struct {
		name, verb string
		in         rollout.Input
		refused    map[pinning.RequestKey]pinning.Refusal
		want       string
	}{
		{"refused", "undo", inputWith(fixture.Planned("a", fixture.NewHash)), map[pinning.RequestKey]pinning.Refusal{{Node: "a", ID: "1"}: {Reason: "NoGate", Message: "no gate"}}, "Failed NoGate: no gate"},
		{"waits while the rollout is blocked", "undo", change(inputWith(fixture.Planned("a", fixture.NewHash)), blockedInput("InvalidPaused")), nil, "Waiting InvalidPaused: because of InvalidPaused"},
		{"runs while the node goes back", "undo", change(inputWith(fixture.Planned("a", fixture.NewHash)), pinned), nil, "Running Replacing: replacing pod p-a of kube-system/driver"},
		{"is done when the node is back", "undo", change(inputWith(fixture.Planned("a", fixture.OldHash)), pinned), nil, "Done Undone: kept"},
		{"is done with what is said of its own component", "undo", change(inputWith(fixture.Planned("a", fixture.OldHash)), pinnedWithAnother), nil, "Done Undone: kept"},
		{"a retry is done at once", "retry", inputWith(fixture.Planned("a", fixture.NewHash)), nil, "Done Freed: node a gets the target of kube-system/driver like any other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := requestResultsOf(tt.in)
			a.Refused = tt.refused
			task, ours := a.pinRequestTask("a", &observed.PinRequest{ID: "1", Verb: tt.verb, Target: "driver"}, nil)
			if got := fmt.Sprintf("%s %s: %s", task.State, task.Reason, task.Message); got != tt.want || !ours {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if task.State.Final() != (task.EndTime != nil) {
				t.Errorf("%s ends at %v", task.State, task.EndTime)
			}
		})
	}
	if _, ours := requestResultsOf(inputWith()).pinRequestTask("a", &observed.PinRequest{ID: "1", Verb: "undo", Target: "toolkit"}, nil); ours {
		t.Error("a request for another group is answered")
	}
}

func TestARollbackAskedForAtTheNodeIsAnswered(t *testing.T) {
	a := requestResultsOf(inputWith(fixture.Planned("a", fixture.NewHash)))
	request := topsv1.UpgradeRequest{ID: "1", DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver", UID: a.State.Members[0].DaemonSet.UID}, Revision: fixture.NewHash, Rollback: true}
	for _, tt := range []struct {
		name   string
		change func(*topsv1.UpgradeRequest)
		want   string
	}{
		{"not decided yet", func(*topsv1.UpgradeRequest) {}, "Waiting AtTarget"},
		{"the gate's policy is missing", func(*topsv1.UpgradeRequest) { a.PinRequestsBlockedBy = "config/gate is not installed" }, "Waiting NoGate"},
		{"refused", func(*topsv1.UpgradeRequest) {
			a.Refused = map[pinning.RequestKey]pinning.Refusal{{Node: "a", ID: "1"}: {Reason: "NoGate"}}
		}, "Failed NoGate"},
		{"withdrawn in time", func(r *topsv1.UpgradeRequest) { r.Withdrawn, a.Refused = true, nil }, "Withdrawn Withdrawn"},
	} {
		tt.change(&request)
		tasks, _ := a.Tasks(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: topsv1.NodeUpgradeStatus{Requests: []topsv1.UpgradeRequest{request}}})
		if len(tasks) != 1 || fmt.Sprint(tasks[0].State, " ", tasks[0].Reason) != tt.want || tasks[0].Name != "a_driver_undo" {
			t.Errorf("%s: %+v, want %s", tt.name, tasks, tt.want)
		}
	}
}
