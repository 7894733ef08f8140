package report

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// TestSettle: without the gate, nothing of it is in a status.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		mode    gating.Mode
		settled int
		gated   metav1.ConditionStatus
		event   string
	}{
		"the gate is off":          {gating.Off, 0, "", ""},
		"the gate is on":           {gating.On, 1, metav1.ConditionTrue, ""},
		"the policy is not served": {gating.NotServed, 0, metav1.ConditionFalse, "GateNotServed"},
		"it is not installed":      {gating.NotInstalled, 1, metav1.ConditionFalse, "GateNotInstalled"},
	} {
		t.Run(name, func(t *testing.T) {
			ds := fixture.DaemonSet("driver")
			w := worldOf([]memberAndPods{memberWith(ds)})
			in := inputFrom(w)
			in.Settings.Strategy, in.Blocked = daemonset.OTA, nil
			status := Status(topsv1.DaemonRolloutStatus{}, 1, in, w.fleet.Plan(in))
			Settle(&status, Gate{Mode: c.mode}, w.State, in, rollout.Decision{})
			is := metav1.ConditionStatus("")
			if condition := meta.FindStatusCondition(status.Conditions, topsv1.RolloutGated); condition != nil {
				is = condition.Status
			}
			if len(status.Settled) != c.settled || is != c.gated {
				t.Errorf("settled %v, condition Gated %q, want %d and %q", status.Settled, is, c.settled, c.gated)
			}
			warned := ""
			for _, e := range Events(&topsv1.DaemonRolloutStatus{}, &status) {
				if e.Type == "Warning" {
					warned += e.Reason
				}
			}
			if warned != c.event {
				t.Errorf("warned of %q, want %q", warned, c.event)
			}
			Settle(&status, Gate{}, w.State, in, rollout.Decision{})
			if status.Settled != nil || meta.FindStatusCondition(status.Conditions, topsv1.RolloutGated) != nil {
				t.Errorf("left after the gate was turned off: %v, %v", status.Settled, status.Conditions)
			}
		})
	}
}

// Nothing shows that an offline node whose pod of the target is not bound to it has had the target: what goes there afterwards is
// gated.
func TestATargetIsNotSettledBeforeEveryNodeHasHadIt(t *testing.T) {
	const settled, open = fixture.NewHash, ""
	for name, c := range map[string]struct {
		changed func(*corev1.Pod)
		waiting int
		before  string
		want    string
	}{
		"it ran there":                      {func(*corev1.Pod) {}, 0, open, settled},
		"it is not bound":                   {unbound, 0, open, open},
		"nothing is ever to run in it":      {placeholder, 0, open, settled},
		"it was settled, and went and came": {unbound, 0, settled, settled},
		"it waits at the gate":              {unbound, 1, settled, open},
	} {
		t.Run(name, func(t *testing.T) {
			ds := fixture.DaemonSet("driver")
			pods := []*corev1.Pod{fixture.PodOn(ds, "a", fixture.NewHash), fixture.PodOn(ds, "offline", fixture.NewHash)}
			c.changed(pods[1])
			w := worldOf([]memberAndPods{memberWith(ds, pods...)}, fixture.Node("a"), fixture.Offline(fixture.Node("offline")))
			w.Rollout.Status.Targets = []topsv1.RevisionTarget{{DaemonSet: "kube-system/driver", Hash: fixture.NewHash}}
			w.Rollout.Status.Settled = []topsv1.RevisionTarget{{DaemonSet: "kube-system/driver", Hash: c.before}}
			in := inputFrom(w)
			in.Settings.Strategy, in.Blocked = daemonset.AdvancedRollingUpdate, nil
			d := w.fleet.Plan(in)
			status := Status(topsv1.DaemonRolloutStatus{}, 1, in, d)
			Settle(&status, Gate{Mode: gating.On, Waiting: c.waiting}, w.State, in, d)
			if len(status.Settled) != 1 || status.Settled[0].Hash != c.want {
				t.Errorf("settled %v, want %q", status.Settled, c.want)
			}
		})
	}
}

func unbound(pod *corev1.Pod) { fixture.Unbound(pod) }

func placeholder(pod *corev1.Pod) {
	unbound(pod)
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
}
