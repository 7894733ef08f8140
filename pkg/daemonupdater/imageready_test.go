package daemonupdater

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// pullFor is what the agent of a node tells of a pod's images.
func pullFor(pod *corev1.Pod, state topsv1.PullState, change func(*topsv1.ImagePull)) []topsv1.ImagePull {
	pull := topsv1.ImagePull{
		ID: "pull-1", Revision: newHash, State: state, Message: "unauthorized", Time: ago(time.Minute),
		DaemonSet: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: "driver", UID: "uid-driver"},
		Pod:       topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if change != nil {
		change(&pull)
	}
	return []topsv1.ImagePull{pull}
}

func imageReadyIs(status corev1.ConditionStatus, reason string, since time.Duration) *corev1.PodCondition {
	return &corev1.PodCondition{Type: "PodImageReady", Status: status, Reason: reason, Message: "controllerrevision: new", LastTransitionTime: ago(since)}
}

func TestPodImageReady(t *testing.T) {
	pod := podOn(daemonSet("driver"), "a", oldHash)
	failed := imageReadyIs("False", "PullImageFail", time.Hour)
	tests := []struct {
		name     string
		in       *rollout.Input // nil: under OTA
		revision string
		pulls    []topsv1.ImagePull
		blocked  string
		had      *corev1.PodCondition
		want     *corev1.PodCondition
		write    bool
	}{
		{name: "images that are there", pulls: pullFor(pod, topsv1.PullReady, nil), want: imageReadyIs("True", "PullImageSuccess", 0), write: true},
		{name: "images that are being pulled", pulls: pullFor(pod, topsv1.PullPulling, nil), want: imageReadyIs("False", "WaitPullImage", 0), write: true},
		{name: "a pull that failed", pulls: pullFor(pod, topsv1.PullFailed, nil), want: imageReadyIs("False", "PullImageFail", 0), write: true},
		{name: "a failed pull that is repeated keeps its time", pulls: pullFor(pod, topsv1.PullPulling, nil), had: failed, want: imageReadyIs("False", "WaitPullImage", time.Hour), write: true},
		{name: "a failed pull that was repeated", pulls: pullFor(pod, topsv1.PullReady, nil), had: failed, want: imageReadyIs("True", "PullImageSuccess", 0), write: true},
		{name: "what is said already is not written", pulls: pullFor(pod, topsv1.PullFailed, nil), had: failed, want: failed},
		{name: "without a pull there is none"},
		{name: "it goes when the agent tells of it no more", had: failed, write: true},
		{name: "it goes when the revision moves on", pulls: pullFor(pod, topsv1.PullReady, func(p *topsv1.ImagePull) { p.Revision = "between" }), had: failed, write: true},
		{name: "it goes when the pod is at the target", revision: newHash, pulls: pullFor(pod, topsv1.PullReady, nil), had: failed, write: true},
		{name: "it goes when OTA is left", in: markInput(daemonset.AdvancedRollingUpdate), pulls: pullFor(pod, topsv1.PullReady, nil), had: failed, write: true},
		{name: "it goes with the strategy", in: markInput(daemonset.NoStrategy), pulls: pullFor(pod, topsv1.PullReady, nil), had: failed, write: true},
		{name: "it is not set without OTA", in: markInput(daemonset.AdvancedRollingUpdate), pulls: pullFor(pod, topsv1.PullReady, nil)},
		{name: "an earlier pod of the name is another one", pulls: pullFor(pod, topsv1.PullReady, func(p *topsv1.ImagePull) { p.Pod.UID = "earlier" })},
		{name: "a pod of another name is another one", pulls: pullFor(pod, topsv1.PullReady, func(p *topsv1.ImagePull) { p.Pod.Name = "driver-b" })},
		{name: "a pod of another namespace is another one", pulls: pullFor(pod, topsv1.PullReady, func(p *topsv1.ImagePull) { p.Pod.Namespace = "default" })},
		{name: "nothing changes while the target is not known", blocked: "RevisionPending", had: failed, want: failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := pod.DeepCopy()
			if tt.revision != "" {
				pod.Labels = hashed(daemonSet("driver"), tt.revision)
			}
			if tt.had != nil {
				pod.Status.Conditions = append(pod.Status.Conditions, *tt.had)
			}
			in := tt.in
			if in == nil {
				in = markInput(daemonset.OTA)
			}
			if tt.blocked != "" {
				in.Blocked = &rollout.Blocked{Reason: tt.blocked}
			}
			seen := podViewOf(0, pod)
			change := imageReadyChange(&seen, in, tt.pulls)
			if (change != nil) != tt.write {
				t.Fatalf("change %v, want one: %t", change, tt.write)
			}
			after := pod
			if change != nil {
				data, err := conditionPatch(&seen, change)
				if err != nil {
					t.Fatal(err)
				}
				after = patched(t, pod, data)
			}
			if diff := cmp.Diff(tt.want, daemonset.ImageReady(after)); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if !slices.ContainsFunc(after.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
				t.Errorf("conditions of others are gone: %v", after.Status.Conditions)
			}
		})
	}
}

func TestOnePatchCarriesBothConditions(t *testing.T) {
	driver := annotate(daemonSet("driver"), topsv1.AnnotationUpdateStrategy, "OTA")
	here, elsewhere := podOn(driver, "a", oldHash), podOn(driver, "b", oldHash)
	told := nodeUpgrade("a")
	told.Status.Pulls = append(pullFor(here, topsv1.PullReady, nil), pullFor(elsewhere, topsv1.PullReady, nil)...)
	o := seen{members: []memberAndPods{memberWith(driver, here, elsewhere)}, nodes: []*corev1.Node{node("a"), node("b")}, upgrades: []*topsv1.NodeUpgrade{told}}.observe()
	in := inputFrom(o)
	d := o.view.fleet.Plan(in)
	patches, _, err := conditionPatches(o, &in, &d)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]corev1.PodConditionType{}
	for _, p := range patches {
		for _, c := range patched(t, &corev1.Pod{}, p.data).Status.Conditions {
			got[p.name] = append(got[p.name], c.Type)
		}
	}
	want := map[string][]corev1.PodConditionType{
		here.Name:      {topsv1.PodNeedUpgrade, topsv1.PodImageReady},
		elsewhere.Name: {topsv1.PodNeedUpgrade}, // on another node than that of the agent who tells of it
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestAPullWakesItsGroup(t *testing.T) {
	driver := podOn(daemonSet("driver"), "a", oldHash)
	before, after := nodeUpgrade("a"), nodeUpgrade("a")
	after.Status.Pulls = pullFor(driver, topsv1.PullReady, nil)
	if !upgradeChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a pull that ended changes nothing")
	}
	if upgradeChanged().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: after.DeepCopy()}) {
		t.Error("a pull that stays as it is wakes the group")
	}
}

func TestATaskThatIsWithdrawn(t *testing.T) {
	withdrawn := asked("1")
	withdrawn.Withdrawn = true
	for name, test := range map[string]struct {
		in   rollout.Input
		want topsv1.TaskState
	}{
		"before it started":                    {otaInput(planned("a", oldHash), plannedBroken("b", newHash)), topsv1.TaskWithdrawn},
		"while its node is offline":            {otaInput(plannedOffline("a", oldHash)), topsv1.TaskWithdrawn},
		"after the node got its slot":          {change(otaInput(asking(planned("a", oldHash))), holding("a")), topsv1.TaskRunning},
		"after its pod was replaced":           {otaInput(successor(planned("a", newHash))), topsv1.TaskDone},
		"while its node has a slot, blocked":   {change(change(otaInput(planned("a", oldHash)), holding("a")), blockedInput("InvalidPaused")), topsv1.TaskRunning},
		"while its pod is away for other ends": {otaInput(successor(plannedBroken("a", newHash))), topsv1.TaskRunning},
	} {
		t.Run(name, func(t *testing.T) {
			tasks, _ := boardOf(test.in).answer(nodeUpgrade("a", withdrawn))
			if len(tasks) != 1 || tasks[0].State != test.want {
				t.Errorf("tasks %+v, want %s", tasks, test.want)
			}
		})
	}
}

func TestARequestThatIsWithdrawnStartsNothing(t *testing.T) {
	withdrawn := request("1", daemonSet("driver"), podOn(daemonSet("driver"), "a", oldHash))
	withdrawn.Withdrawn = true
	if open := openRequests(nodeUpgrade("a", withdrawn)); len(open) != 0 {
		t.Errorf("open requests %v", open)
	}
	again := withdrawn
	again.ID, again.Withdrawn = "1-2", false
	if open := openRequests(nodeUpgrade("a", withdrawn, again)); open[types.UID("uid-driver")] == nil {
		t.Error("who asks again after that is not heard")
	}
}
