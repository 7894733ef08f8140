package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// patched applies a patch as the API server does.
func patched(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	original, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	var after corev1.Pod
	if err := json.Unmarshal(merged, &after); err != nil {
		t.Fatal(err)
	}
	return &after
}

func needs(status corev1.ConditionStatus, target string, since time.Duration) corev1.PodCondition {
	return corev1.PodCondition{Type: "PodNeedUpgrade", Status: status, Message: "controllerrevision: " + target, LastTransitionTime: fixture.Ago(since)}
}

func markInput(strategy daemonset.Strategy) *rollout.Input {
	return &rollout.Input{Now: fixture.Epoch.Add(400 * time.Millisecond), Settings: daemonset.Settings{Strategy: strategy}, Members: []rollout.Member{{Target: fixture.NewHash}}}
}

// Contract 100.
func TestNeedUpgradePatch(t *testing.T) {
	ready := fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash).Status.Conditions[0]
	gate := corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue, LastTransitionTime: fixture.Ago(time.Hour)}
	tests := []struct {
		name     string
		revision string
		strategy daemonset.Strategy
		verdict  rollout.Verdict
		blocked  string
		had      []corev1.PodCondition // besides Ready and a condition of another owner
		want     []corev1.PodCondition
		none     bool
	}{
		{name: "under OTA an outdated pod needs it", revision: fixture.OldHash, strategy: daemonset.OTA,
			want: []corev1.PodCondition{needs("True", fixture.NewHash, 0)}},
		{name: "under OTA a pod at the target does not", revision: fixture.NewHash, strategy: daemonset.OTA,
			want: []corev1.PodCondition{needs("False", fixture.NewHash, 0)}},
		{name: "a new target changes the message and keeps the time", revision: fixture.OldHash, strategy: daemonset.OTA,
			had:  []corev1.PodCondition{needs("True", "between", time.Hour)},
			want: []corev1.PodCondition{needs("True", fixture.NewHash, time.Hour)}},
		{name: "a pod that becomes outdated has the time of now", revision: fixture.OldHash, strategy: daemonset.OTA,
			had:  []corev1.PodCondition{needs("False", fixture.OldHash, time.Hour)},
			want: []corev1.PodCondition{needs("True", fixture.NewHash, 0)}},
		{name: "a rollback to the pod's revision takes the need away", revision: fixture.NewHash, strategy: daemonset.OTA,
			had:  []corev1.PodCondition{needs("True", "between", time.Hour)},
			want: []corev1.PodCondition{needs("False", fixture.NewHash, 0)}},
		{name: "a condition that is right already is not written", revision: fixture.OldHash, strategy: daemonset.OTA,
			had: []corev1.PodCondition{needs("True", fixture.NewHash, time.Hour)}, none: true},
		{name: "under AdvancedRollingUpdate an outdated pod on a skipped node needs it", revision: fixture.OldHash, strategy: daemonset.AdvancedRollingUpdate,
			verdict: rollout.Verdict{State: rollout.Skipped}, want: []corev1.PodCondition{needs("True", fixture.NewHash, 0)}},
		{name: "under AdvancedRollingUpdate an outdated pod needs it while paused", revision: fixture.OldHash, strategy: daemonset.AdvancedRollingUpdate,
			verdict: rollout.Verdict{State: rollout.Held, Reason: rollout.ReasonPaused}, want: []corev1.PodCondition{needs("True", fixture.NewHash, 0)}},
		{name: "under AdvancedRollingUpdate an outdated pod needs it when halted", revision: fixture.OldHash, strategy: daemonset.AdvancedRollingUpdate,
			verdict: rollout.Verdict{State: rollout.Held, Reason: rollout.ReasonHalted}, want: []corev1.PodCondition{needs("True", fixture.NewHash, 0)}},
		{name: "an outdated pod needs it when the settings are wrong", revision: fixture.OldHash, blocked: "InvalidMaxUnavailable",
			want: []corev1.PodCondition{needs("True", fixture.NewHash, 0)}},
		{name: "a pod at the target is left as it is when the settings are wrong", revision: fixture.NewHash, blocked: "InvalidMaxUnavailable", none: true},
		{name: "nothing is written while the target is not known", revision: fixture.OldHash, blocked: "RevisionPending", none: true},
		{name: "under AdvancedRollingUpdate a pod at the target on a skipped node does not", revision: fixture.NewHash, strategy: daemonset.AdvancedRollingUpdate,
			verdict: rollout.Verdict{State: rollout.Skipped}, none: true},
		{name: "under AdvancedRollingUpdate it is taken off when the pod's turn comes, and nothing else", revision: fixture.OldHash, strategy: daemonset.AdvancedRollingUpdate,
			had: []corev1.PodCondition{needs("True", fixture.NewHash, time.Hour)}},
		{name: "without a strategy it is taken off", revision: fixture.OldHash, strategy: daemonset.NoStrategy,
			had: []corev1.PodCondition{needs("False", fixture.NewHash, time.Hour)}},
		{name: "under AdvancedRollingUpdate a pod without it is not written", revision: fixture.OldHash, strategy: daemonset.AdvancedRollingUpdate, none: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := fixture.PodOn(fixture.DaemonSet("driver"), "a", tt.revision)
			pod.Status.Conditions = append([]corev1.PodCondition{ready, gate}, tt.had...)
			in := markInput(tt.strategy)
			if tt.blocked != "" {
				in.Blocked = &rollout.Blocked{Reason: tt.blocked}
			}
			seen := podOf(observed.Member{DaemonSet: fixture.DaemonSet("driver")}, 0, pod, fixture.Epoch)
			data, err := conditionsPatch(&seen, in, &tt.verdict, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.none || data == nil {
				if (data == nil) != tt.none {
					t.Fatalf("patch = %s, want none: %v", data, tt.none)
				}
				return
			}
			want := pod.DeepCopy()
			want.Status.Conditions = append([]corev1.PodCondition{ready, gate}, tt.want...)
			byType := func(p *corev1.Pod) map[corev1.PodConditionType]corev1.PodCondition {
				m := map[corev1.PodConditionType]corev1.PodCondition{}
				for _, c := range p.Status.Conditions {
					m[c.Type] = c
				}
				return m
			}
			got := patched(t, pod, data)
			if diff := cmp.Diff(byType(want), byType(got)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			got.Status.Conditions, want.Status.Conditions = nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the rest of the pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNeedUpgradePatchIsForThisVeryPod(t *testing.T) {
	pod := fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash)
	seen := podOf(observed.Member{DaemonSet: fixture.DaemonSet("driver")}, 0, pod, fixture.Epoch)
	data, err := conditionsPatch(&seen, markInput(daemonset.OTA), &rollout.Verdict{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var patch struct{ Metadata map[string]string }
	if err := json.Unmarshal(data, &patch); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"uid": "uid-driver-a"}, patch.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// anyPod may be patched.
func anyPod(types.UID) bool { return true }

// marksOf plans a group and returns what is patched.
func marksOf(t *testing.T, o *world, in rollout.Input) (marks map[string]string, more bool) {
	t.Helper()
	return marksOfDue(t, o, in, anyPod)
}

func marksOfDue(t *testing.T, o *world, in rollout.Input, isDue func(types.UID) bool) (marks map[string]string, more bool) {
	t.Helper()
	d := o.fleet.Plan(in)
	o.nodes.Decided(&in, &d)
	patches, more, err := o.nodes.PodPatches(&in, &d, isDue)
	if err != nil {
		t.Fatal(err)
	}
	marks = map[string]string{}
	for _, p := range patches {
		c := daemonset.NeedUpgrade(patched(t, &corev1.Pod{}, p.Data))
		marks[p.Name] = string(c.Status) + " " + c.Message
	}
	return marks, more
}

func TestNeedUpgradePatches(t *testing.T) {
	driver, exporter := fixture.Annotate(fixture.DaemonSet("driver"), topsv1.AnnotationUpdateStrategy, "OTA"), fixture.Annotate(fixture.DaemonSet("exporter"), topsv1.AnnotationUpdateStrategy, "OTA")
	o := worldOf([]memberAndPods{
		memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash), fixture.Deleting(fixture.PodOn(driver, "b", fixture.OldHash))),
		memberWith(exporter, fixture.PodOn(exporter, "a", fixture.NewHash), fixture.PodOn(exporter, "gone", fixture.OldHash)),
	}, fixture.Node("a"), fixture.Node("b"))
	in := inputFrom(o)
	got, _ := marksOf(t, o, in)
	want := map[string]string{
		"driver-a": "True controllerrevision: new", "exporter-a": "False controllerrevision: new", "exporter-gone": "True controllerrevision: new"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("every pod that stays is compared with the target of its own member (-want +got):\n%s", diff)
	}
}

func TestNeedUpgradeIsLookedAtWhereSomethingChanged(t *testing.T) {
	driver := fixture.DaemonSet("driver")
	var pods []*corev1.Pod
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c"} {
		pods, nodes = append(pods, fixture.PodOn(driver, name, fixture.OldHash)), append(nodes, fixture.Node(name))
	}
	fixture.Offline(nodes[2])
	o := worldOf([]memberAndPods{memberWith(driver, pods...)}, nodes...)
	in := inputFrom(o)
	skipped := map[string]string{"driver-c": "True controllerrevision: new"}
	if got, _ := marksOf(t, o, in); !cmp.Equal(skipped, got) {
		t.Errorf("marks = %v, want %v", got, skipped)
	}
	if got, _ := marksOf(t, o, in); !cmp.Equal(skipped, got) {
		t.Errorf("marks = %v, want %v again: nobody said that it was written", got, skipped)
	}
	o.nodes.Patched("c") // it was
	if got, _ := marksOf(t, o, in); len(got) > 0 {
		t.Errorf("marks = %v though nothing changed", got)
	}
	in.Settings.Paused = true
	if got, _ := marksOf(t, o, in); len(got) != 3 {
		t.Errorf("marks = %v, want every pod looked at again when the rollout is paused", got)
	}
}

func TestNeedUpgradePatchesOfOneSecondAreBounded(t *testing.T) {
	driver := fixture.Annotate(fixture.DaemonSet("driver"), topsv1.AnnotationUpdateStrategy, "OTA")
	var pods []*corev1.Pod
	for i := range maxPatches + 1 {
		pods = append(pods, fixture.PodOn(driver, fmt.Sprint("n", i), fixture.OldHash))
	}
	o := worldOf([]memberAndPods{memberWith(driver, pods...)})
	got, more := marksOf(t, o, inputFrom(o))
	if len(got) != maxPatches || !more {
		t.Errorf("%d patches, more %v, want %d and more", len(got), more, maxPatches)
	}
	for p := range got {
		o.nodes.Patched(strings.TrimPrefix(p, "driver-"))
	}
	in := inputFrom(o)
	in.Now = in.Now.Add(time.Second - 1)
	if got, more := marksOf(t, o, in); len(got) > 0 || !more {
		t.Errorf("%d patches, more %v within the same second, want none and more", len(got), more)
	}
	in.Now = in.Now.Add(time.Second)
	if got, more := marksOf(t, o, in); len(got) == 0 || more {
		t.Errorf("%d patches, more %v in the next second, want the rest", len(got), more)
	}
}

// A pod may be one whose conditions the API server does not let anybody write.
func TestNodesWhoseConditionsCannotBeWrittenDoNotKeepTheOthersWaiting(t *testing.T) {
	driver := fixture.Annotate(fixture.DaemonSet("driver"), topsv1.AnnotationUpdateStrategy, "OTA")
	var pods []*corev1.Pod
	for i := range 2*maxPatches + 1 {
		pods = append(pods, fixture.PodOn(driver, fmt.Sprintf("n%03d", i), fixture.OldHash))
	}
	o := worldOf([]memberAndPods{memberWith(driver, pods...)})
	in := inputFrom(o)
	tried := map[string]bool{}
	for pass, want := range []int{maxPatches, 2 * maxPatches, 2*maxPatches + 1} {
		got, more := marksOf(t, o, in) // all of them fail
		for p := range got {
			tried[p] = true
		}
		if len(tried) != want || !more && pass < 2 {
			t.Errorf("second %d: %d pods were tried, more %v, want %d", pass, len(tried), more, want)
		}
		in.Now = in.Now.Add(time.Second)
	}
	got, more := marksOfDue(t, o, in, func(pod types.UID) bool { return pod == pods[2*maxPatches].UID })
	if len(got) != 1 || more {
		t.Errorf("%d patches, more %v, want that of the only pod that is due", len(got), more)
	}
	if got, _ := marksOfDue(t, o, in, func(pod types.UID) bool { return pod == pods[0].UID }); len(got) != 1 {
		t.Errorf("%d patches when a pod is due that was not, want 1", len(got))
	}
}

// What is written on a node does not end the wait for another pod there.
func TestAPodThatIsNotDueIsPatchedWhenItIs(t *testing.T) {
	driver, exporter := fixture.Annotate(fixture.DaemonSet("driver"), topsv1.AnnotationUpdateStrategy, "OTA"), fixture.Annotate(fixture.DaemonSet("exporter"), topsv1.AnnotationUpdateStrategy, "OTA")
	o := worldOf([]memberAndPods{memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash)), memberWith(exporter, fixture.PodOn(exporter, "a", fixture.OldHash))}, fixture.Node("a"))
	in := inputFrom(o)
	if got, _ := marksOfDue(t, o, in, func(pod types.UID) bool { return pod == "uid-exporter-a" }); len(got) != 1 || got["exporter-a"] == "" {
		t.Errorf("patches %v, want that of the pod that is due", got)
	}
	o.nodes.Patched("a")
	if got, _ := marksOf(t, o, in); got["driver-a"] == "" {
		t.Errorf("patches %v when the other one is due", got)
	}
	o.nodes.Patched("a")
	if got, _ := marksOf(t, o, in); len(got) > 0 {
		t.Errorf("patches %v though both are written", got)
	}
}

// A pass may fail after its decision and before its reports. No event has the nodes checked again that only the time has changed.
func TestWhatAFailedPassDecidedIsReportedByTheNext(t *testing.T) {
	driver := fixture.DaemonSet("driver")
	o := worldOf([]memberAndPods{memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash), fixture.PodOn(driver, "b", fixture.OldHash))}, fixture.Node("a"), fixture.Node("b"))
	in := inputFrom(o)
	if got, _ := marksOf(t, o, in); len(got) > 0 {
		t.Fatalf("marks = %v, want none", got)
	}
	skipped := *o.fleet.Node("b")
	skipped.Ready = false
	o.fleet.Set(skipped, in.Now)
	d := o.fleet.Plan(in)
	d.Advanced = []string{"b"}
	o.nodes.Decided(&in, &d)
	if got, _ := marksOf(t, o, in); len(got) != 1 || got["driver-b"] == "" {
		t.Errorf("marks = %v, want that of the skipped node", got)
	}
}

// Below the threshold of a halt nothing else changes when a person clears the failures.
func TestANodeWhoseFailureIsClearedIsCheckedAgain(t *testing.T) {
	driver := fixture.DaemonSet("driver")
	o := worldOf([]memberAndPods{memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash), fixture.PodOn(driver, "b", fixture.OldHash))}, fixture.Node("a"), fixture.Offline(fixture.Node("b")))
	in := inputFrom(o)
	in.Ledger.Revision = in.Revision
	in.Ledger.Failures = []rollout.Failure{{Node: "b", UID: o.fleet.Node("b").UID, Reason: rollout.ReasonProgressDeadlineExceeded, Since: in.Now.Add(-time.Hour)}}
	if got, _ := marksOf(t, o, in); len(got) > 0 {
		t.Fatalf("marks = %v of a failed node, want none", got)
	}
	in.Resume = "now"
	if got, _ := marksOf(t, o, in); len(got) != 1 || got["driver-b"] == "" {
		t.Errorf("marks = %v, want that of the node, which is skipped now", got)
	}
}
