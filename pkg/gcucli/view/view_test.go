package view

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/golden"
)

// Every reason of a node has advice, except where there is nothing to say.
func TestEveryReasonHasAdvice(t *testing.T) {
	silent := []string{"AtTarget", "InProgress", "AwaitingSlot", "Aborted", "Withdrawn", "Superseded", "TargetChanged", "NodeReplaced", "Succeeded", "WindingUp"}
	for _, file := range []string{"../../daemonupdater/rollout/decision.go", "../../nodeupgrade/operation/reasons.go"} {
		reasons := reasonsIn(t, file)
		if len(reasons) < 20 {
			t.Errorf("%s has only %d reasons: is this still the list?", file, len(reasons))
		}
		for _, reason := range reasons {
			if (advice[reason] == "") != slices.Contains(silent, reason) {
				t.Errorf("reason %s of %s has advice %q", reason, file, advice[reason])
			}
		}
	}
}

// reasonsIn reads the values of the constants whose names begin with Reason.
func reasonsIn(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, text)
		}
		return true
	})
	return reasons
}

func TestAdviceNamesWhatItIsAbout(t *testing.T) {
	if got, want := adviceFor("OperationFailed", "my-gr", "n1", "driver_verify"),
		"kubectl gcu task retry n1 driver_verify, kubectl gcu abort n1, or roll out another revision"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := adviceFor("Paused", "my-gr", "", ""), "kubectl gcu resume my-gr"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOutcome(t *testing.T) {
	condition := func(dro *topsv1.DaemonRollout, kind, status, reason string) {
		dro.Status.Conditions = slices.DeleteFunc(dro.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		dro.Status.Conditions = append(dro.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason})
	}
	degraded := func(gr *topsv1.GcuResource, reason string) {
		gr.Status.StandardConditions = []metav1.Condition{{Type: "Degraded", Status: metav1.ConditionTrue, Reason: reason}}
	}
	tests := []struct {
		name  string
		edit  func(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout)
		state State
		why   string
	}{
		{"all nodes have it", func(*topsv1.GcuResource, *topsv1.DaemonRollout) {}, Done, ""},
		{"a spec that was not seen is not done", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { gr.Generation++ }, Working, ReasonNotSeen},
		{"a gr that goes", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { gr.DeletionTimestamp = &metav1.Time{Time: now} }, Working, "Deleting"},
		{"a node in flight that soaks", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Complete", "False", "Incomplete")
			condition(dro, "Progressing", "True", "RollingOut")
		}, Working, "RollingOut"},
		{"a component that is not there", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { gr.Status.Phase = topsv1.PhaseDeploying }, Working, "Deploying"},
		{"a wave for a person", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "AwaitingApproval")
		}, Waiting, "AwaitingApproval"},
		{"OTA", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "AwaitingRequests")
		}, Waiting, "AwaitingRequests"},
		{"settings that are wrong", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Accepted", "False", "InvalidMaxUnavailable")
		}, Stopped, "InvalidMaxUnavailable"},
		{"a halt", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) { condition(dro, "Halted", "True", "Halted") }, Stopped, "Halted"},
		{"a halt of the spec before", func(gr *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Halted", "True", "Halted")
			gr.Status.Conditions = append(gr.Status.Conditions, topsv1.ActionCondition{Action: "upgrade", Status: "upgrading", Reason: "Upgrading"})
		}, Working, "Upgrading"},
		{"a halt that the policy answers", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Halted", "True", "Halted")
			condition(dro, "Complete", "False", "Incomplete")
			condition(dro, "Progressing", "False", "Halted")
			dro.Status.Rollback = &topsv1.RolloutRollback{From: dro.Status.Revision, To: "good"}
		}, Working, "Halted"},
		{"failed nodes that use up the budget", func(_ *topsv1.GcuResource, dro *topsv1.DaemonRollout) {
			condition(dro, "Progressing", "False", "NodesFailed")
		}, Stopped, "Halted"},
		{"a failure", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { degraded(gr, "ComponentConflict") }, Stopped, "ComponentConflict"},
		{"an API server that fails for a while", func(gr *topsv1.GcuResource, _ *topsv1.DaemonRollout) { degraded(gr, "ReconcileFailed") }, Done, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "running")
			tt.edit(f.Resource, f.Rollout)
			o := OutcomeOf(f.Resource, f.Rollout)
			if o.State != tt.state || o.Reason != tt.why {
				t.Errorf("got %s (%s), want %s (%s)", o.State, o.Reason, tt.state, tt.why)
			}
			if (o.State == Waiting || o.State == Stopped) && o.Do == "" {
				t.Error("it does not say what to do")
			}
		})
	}
}

func TestChangesAreNamedFieldByField(t *testing.T) {
	from := &topsv1.GcuResourceSpec{
		Driver:   &topsv1.BaseFields{Version: "1.0", NodeSelector: map[string]string{"a": "1"}},
		Exporter: &topsv1.BaseFields{Image: "same"},
	}
	from.Driver.Env = envOf("A", "1", "B", "2")
	to := from.DeepCopy()
	to.Driver.Version, to.Driver.NotDeploy = "1.1", true
	to.Driver.NodeSelector["a"] = "2"
	to.Driver.Env = envOf("B", "3", "A", "1")
	to.Exporter = nil
	to.GFD = &topsv1.BaseFields{Version: "2"}
	changes, err := ChangesOf(from, to)
	if err != nil {
		t.Fatal(err)
	}
	want := `driver.env.B.value: 2 -> 3
driver.nodeSelector.a: 1 -> 2
driver.notDeploy: false -> true
driver.version: 1.0 -> 1.1
exporter: {"image":"same","notDeploy":false} -> unset
gfd: unset -> {"notDeploy":false,"version":"2"}
`
	if diff := cmp.Diff(want, ChangesText(changes, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none, err := ChangesOf(from, from.DeepCopy()); err != nil || len(none) != 0 {
		t.Errorf("the same spec has changes %v, %v", none, err)
	}
}

func TestGoldenHistory(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "my-gr", UID: "gr"}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1.2"}}}
	revision := func(number int64, name, uid, data string) appsv1.ControllerRevision {
		return appsv1.ControllerRevision{Revision: number, Data: runtime.RawExtension{Raw: []byte(data)}, ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(10-number) * time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "GcuResource", Name: "my-gr", UID: "gr", Controller: ptr.To(true)}}}}
	}
	list := []appsv1.ControllerRevision{
		revision(2, "my-gr-b", "gr", `{"spec":{"driver":{"notDeploy":false,"version":"1.1","env":[{"name":"A","value":"1"}]}}}`),
		revision(4, "my-gr-d", "gr", `{"spec":{"driver":{"notDeploy":false,"version":"1.2"}}}`),
		revision(1, "my-gr-a", "gr", `{"spec":{"driver":{"notDeploy":false,"version":"1.0"}}}`),
		revision(3, "my-gr-c", "gr", `{}`),
		revision(9, "other", "gr", `{}`),
	}
	list[4].OwnerReferences[0].UID = "of the gr of this name before"
	dro := &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{LastKnownGood: &topsv1.KnownGoodRevision{GcuResourceRevision: "my-gr-b"}}}
	history, err := HistoryOf(gr, list, dro)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "golden/history.txt", HistoryText(history, Style{Now: now}))
	golden.Check(t, "golden/history.out.yaml", inYAML(t, history))
	for wish, want := range map[string]string{"": "my-gr-b", "1": "my-gr-a", "my-gr-c": "my-gr-c"} {
		if r, err := FindRevision(history, wish); err != nil || r.Name != want {
			t.Errorf("revision %q is %v, %v, want %s", wish, r, err, want)
		}
	}
	if _, err := FindRevision(history, "9"); err == nil || !strings.Contains(err.Error(), "no revision 9 is kept; there are 4 (my-gr-d)") {
		t.Errorf("revision 9: %v", err)
	}
	if _, err := FindRevision(history[:1], ""); err == nil {
		t.Error("there is a revision before the only one")
	}
	// An edit that the operator has not kept yet: no revision is the present one.
	gr.Spec.Driver.Version = "1.3"
	if history, err = HistoryOf(gr, list, nil); err != nil || history[0].Present {
		t.Errorf("revision %s is the present one, %v", history[0].Name, err)
	}
}

func TestApprove(t *testing.T) {
	tests := []struct {
		name, wave, want, err string
		already               bool
		edit                  func(*fixture)
	}{
		{name: "the one that waits, beside older approvals", wave: "main", want: "old/main,bbb/main"},
		{name: "an approval for another revision is none", wave: "main", want: "ccc/main,bbb/main", edit: func(f *fixture) {
			f.Rollout.Annotations[topsv1.AnnotationApprovedWaves] = "ccc/main"
		}},
		{name: "twice is once", wave: "main", want: " bbb/main ,x", already: true, edit: func(f *fixture) {
			f.Rollout.Annotations[topsv1.AnnotationApprovedWaves] = " bbb/main ,x"
		}},
		{name: "not one that needs none", wave: "canary", err: "wave canary does not wait for an approval, it is Complete; wave main waits"},
		{name: "not one that does not exist", wave: "second", err: `the rollout has no wave "second"; wave main waits`},
		{name: "not ahead, before the wave before is complete", wave: "main", err: "it is NotReached; no wave waits", edit: func(f *fixture) {
			f.Rollout.Status.Waves[0].CompletedTime = nil
		}},
		{name: "not ahead, while the wave before soaks", wave: "main", err: "it is NotReached; no wave waits", edit: func(f *fixture) {
			f.Rollout.Status.Waves[0].CompletedTime = ptr.To(metav1.NewTime(now.Add(-9 * time.Minute)))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "rolling")
			if tt.edit != nil {
				tt.edit(f)
			}
			got, already, err := Approve(f.Rollout, WavesOf(f.Rollout, f.Policy, now), tt.wave)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want || already != tt.already {
				t.Errorf("got %q, %v, %v, want %q, %v", got, already, err, tt.want, tt.already)
			}
		})
	}
}

func TestTheBarHasAPlaceForEveryState(t *testing.T) {
	for _, tt := range []struct {
		counts Counts
		want   string
	}{
		{Counts{Total: 10, Pending: 7, Held: 3}, "[..........]"},
		{Counts{Total: 10, Updated: 10}, "[##########]"},
		{Counts{Total: 1000, Updated: 1, InFlight: 1, Failed: 1, Skipped: 1, Held: 996}, "[#>xo......]"},
		{Counts{Total: 1000, Updated: 997, InFlight: 1, Failed: 1, Skipped: 1}, "[#######>xo]"},
		{Counts{}, ""},
	} {
		if got := tt.counts.Bar(10, Style{}); got != tt.want {
			t.Errorf("%v is %s, want %s", tt.counts, got, tt.want)
		}
	}
}

func TestRollbacksOfThePolicy(t *testing.T) {
	begun, done := metav1.NewTime(now.Add(-90*time.Second)), metav1.NewTime(now)
	rb := RolledBack{From: "bad", To: "good", Message: "back to gpu-1, the last known good revision: 1 of 1 started nodes failed (a)", Time: begun}
	for _, tt := range []struct {
		name string
		done *metav1.Time
		wide bool
		want string
	}{
		{"is over", &done, false, "  rolled back by policy 90s ago: "},
		{"goes on", nil, false, "  is being rolled back by policy for 90s: "},
		{"with its revisions", &done, true, "  rolled back by policy 90s ago, from revision bad to good: "},
	} {
		rb.Done = tt.done
		if got := rb.text(Style{Now: now, Wide: tt.wide}); got != tt.want+rb.Message+"\n" {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
