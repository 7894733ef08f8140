package observed

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// A pod that waited at the gate for longer than the progress deadline has that time to become Ready once it is released, also before its
// kubelet writes anything. Its slot ended, and another pod was there, before it came.
func TestAPodIsNotBlamedForTheTimeAtTheGate(t *testing.T) {
	ds := fixture.DaemonSet("driver")
	pod := fixture.PodOn(ds, "a", fixture.NewHash)
	pod.CreationTimestamp, pod.Status = metav1.NewTime(fixture.Epoch), corev1.PodStatus{}
	node := fixture.Node("a")
	node.Status.Conditions[0].LastTransitionTime = fixture.Ago(time.Hour)
	o := worldOf([]memberAndPods{memberWith(ds)})
	o.StateTimes = &daemonset.StateTimes{}
	restarted, released, progress := 100*time.Minute, 2*time.Hour, rollout.DefaultDeadlines.Progress
	for _, step := range []struct {
		at        time.Duration
		gated     bool
		scheduled bool
		since     time.Duration
	}{
		{time.Second, true, false, time.Second},
		{50 * time.Minute, true, false, time.Second},
		{restarted, true, false, restarted},
		{released - time.Second, true, false, restarted},
		{released, false, false, released},
		{released + time.Second, false, true, released},
		{released + progress - time.Second, false, true, released},
	} {
		pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, ""
		if step.gated {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}
		}
		if step.scheduled {
			pod.Spec.NodeName = "a"
		}
		if step.at == restarted { // another manager
			o.StateTimes = &daemonset.StateTimes{}
		}
		in := inputFrom(o)
		in.Now = fixture.Epoch.Add(step.at)
		SetNode(o.State, "a", node, nil, []*corev1.Pod{pod})
		n := o.RolloutNode("a", in.Revision, Zones{}, in.Now)
		n.Replaced = map[string]time.Time{o.Members[0].Key(): fixture.Epoch}
		in.Nodes = []rollout.Node{n}
		if failed := rollout.Plan(in).Ledger.Failures; len(failed) > 0 {
			t.Errorf("%s after it was created: failures %+v", step.at, failed)
		}
		if since := n.Pods[0].NotReadySince.Sub(fixture.Epoch); since != step.since {
			t.Errorf("%s after it was created: not Ready since %s, want %s", step.at, since, step.since)
		}
	}
}
