package report

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// pullFor returns what the agent of a node reports about the images of a pod.
func pullFor(pod *corev1.Pod, state topsv1.PullState, change func(*topsv1.ImagePull)) []topsv1.ImagePull {
	pull := topsv1.ImagePull{
		ID: "pull-1", Revision: fixture.NewHash, State: state, Message: "unauthorized", Time: fixture.Ago(time.Minute),
		DaemonSet: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: "driver", UID: "uid-driver"},
		Pod:       topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if change != nil {
		change(&pull)
	}
	return []topsv1.ImagePull{pull}
}

func imageReadyIs(status corev1.ConditionStatus, reason string, since time.Duration) *corev1.PodCondition {
	return &corev1.PodCondition{Type: "PodImageReady", Status: status, Reason: reason, Message: "controllerrevision: new", LastTransitionTime: fixture.Ago(since)}
}

func TestPodImageReady(t *testing.T) {
	pod := fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash)
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
		{name: "it goes when the pod is at the target", revision: fixture.NewHash, pulls: pullFor(pod, topsv1.PullReady, nil), had: failed, write: true},
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
				pod.Labels = fixture.Hashed(fixture.DaemonSet("driver"), tt.revision)
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
			seen := podOf(observed.Member{DaemonSet: fixture.DaemonSet("driver")}, 0, pod, fixture.Epoch)
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
	driver := fixture.Annotate(fixture.DaemonSet("driver"), topsv1.AnnotationUpdateStrategy, "OTA")
	here, elsewhere := fixture.PodOn(driver, "a", fixture.OldHash), fixture.PodOn(driver, "b", fixture.OldHash)
	told := fixture.NodeUpgrade("a")
	told.Status.Pulls = append(pullFor(here, topsv1.PullReady, nil), pullFor(elsewhere, topsv1.PullReady, nil)...)
	o := seen{members: []memberAndPods{memberWith(driver, here, elsewhere)}, nodes: []*corev1.Node{fixture.Node("a"), fixture.Node("b")}, upgrades: []*topsv1.NodeUpgrade{told}}.observe()
	in := inputFrom(o)
	d := o.fleet.Plan(in)
	o.nodes.Decided(&in, &d)
	patches, _, err := o.nodes.PodPatches(&in, &d, anyPod)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]corev1.PodConditionType{}
	for _, p := range patches {
		for _, c := range patched(t, &corev1.Pod{}, p.Data).Status.Conditions {
			got[p.Name] = append(got[p.Name], c.Type)
		}
	}
	want := map[string][]corev1.PodConditionType{
		here.Name:      {topsv1.PodNeedUpgrade, topsv1.PodImageReady},
		elsewhere.Name: {topsv1.PodNeedUpgrade}, // on another node than the agent that reports on it
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
