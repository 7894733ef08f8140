package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func createdAt(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
}

func tolerating(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// of makes a pod one of another controller.
func of(controller types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].UID = controller }
}

// A controller that brings a pod back to the cordoned node does so again and again: each eviction is futile, and so is that of
// any other pod of the node.
func TestAPodThatComesBackIsNotEvictedAgain(t *testing.T) {
	const blocked = "ReplicaSet owner brings its pods back to the cordoned node: remove their toleration of taint node.kubernetes.io/unschedulable, " +
		"or their spec.nodeName, exclude the node, or leave the pods out (drain.podSelector)"
	later, before := start.Add(time.Minute), start.Add(-time.Minute)
	forgotten := func(tried *Attempt) { tried.Outcome.Since = time.Time{} }
	for _, tc := range []struct {
		name    string
		pod     corev1.Pod
		attempt func(*Attempt) // of its predecessor
		pods    func(*Pod)
		want    State // "" for evicted
	}{
		{name: "its successor", pod: pod("b", createdAt(later), tolerating), want: Blocked},
		{name: "one that was created in the same second", pod: pod("b", createdAt(start), tolerating), want: Blocked},
		{name: "one that is bound without the scheduler", pod: pod("b", createdAt(start)), want: Blocked},
		{name: "one that waited for the card", pod: pod("b", createdAt(before), tolerating), want: Blocked},
		{name: "one whose predecessor was not seen to terminate", pod: pod("b", createdAt(later)), attempt: forgotten, want: Blocked},
		{name: "one that was bound at the moment of the cordon", pod: pod("b", createdAt(before))},
		{name: "one that was on the node all along", pod: pod("sibling", createdAt(start), tolerating)},
		{name: "itself", pod: pod("a", createdAt(start), tolerating)},
		{name: "one of another controller", pod: pod("b", createdAt(later), tolerating, of("other"))},
		{name: "one without a controller", pod: pod("b", createdAt(later), tolerating, func(p *corev1.Pod) { p.OwnerReferences = nil })},
		{name: "one beside another without a controller", pod: pod("b", createdAt(later), tolerating, func(p *corev1.Pod) { p.OwnerReferences = nil }),
			attempt: func(tried *Attempt) { tried.Controllers = map[types.UID]types.UID{"uid-a": ""} }},
		{name: "one whose predecessor was not evicted", pod: pod("b", createdAt(later), tolerating), attempt: func(tried *Attempt) { tried.Outcome.State = Gone }},
		{name: "one that terminates", pod: pod("b", createdAt(later), tolerating, terminatingSince(later)), want: Terminating},
		{name: "one that the policy leaves", pod: pod("b", createdAt(later), tolerating, labeled("keep", "yes")), want: Skipped},
		{name: "one of a DaemonSet, for which the taint counts", pod: pod("b", createdAt(later), tolerating),
			pods: func(p *Pod) { p.Stays, p.DaemonSet, p.accelerator = "ignored", &appsv1.DaemonSet{}, true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) {
				d.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "keep", Operator: metav1.LabelSelectorOpDoesNotExist}}}
			})).ReplacingDriver(true)
			tried := Attempt{Time: start, Outcome: Outcome{Pod: named("ns", "a"), UID: "uid-a", State: Evicted, Since: start},
				Controllers: map[types.UID]types.UID{"uid-a": "owner", "uid-sibling": "owner"}}
			if tc.attempt != nil {
				tc.attempt(&tried)
			}
			facts := factsOf(policy, tc.pod, pod("z", of("z")))
			if tc.pods != nil {
				tc.pods(&facts.Pods[0])
			}
			evict, r := decide(facts, policy, Attempts{"uid-a": tried}, StartAt(start), later.Add(RetryInterval))
			var got []Outcome
			for _, o := range r.Pods {
				if o.Pod.Name != "z" {
					got = append(got, o)
				}
			}
			if tc.want == "" {
				if diff := cmp.Diff([]string{tc.pod.Name, "z"}, evict); diff != "" {
					t.Errorf("evictions: %s, outcomes %+v", diff, r.Pods)
				}
				return
			}
			if len(got) != 1 || got[0].State != tc.want || (got[0].Reason == blocked) != (tc.want == Blocked) {
				t.Errorf("outcomes %+v, want it %s", got, tc.want)
			}
			if evictsOther := len(evict) == 1; evictsOther != (tc.want != Blocked) {
				t.Errorf("evicts the other pod of the node: %t", evictsOther)
			}
		})
	}
}

func TestAnEvictionIsRememberedWhenThePodIsGone(t *testing.T) {
	policy := policyOf(t, nil)
	leave, r := Decide(factsOf(policy, pod("a"), pod("b", of("other"))), policy, nil, StartAt(start), start)
	r.Add(leave, []Outcome{{Pod: named("ns", "a"), UID: "uid-a", State: Evicted}, {Pod: named("ns", "b"), UID: "uid-b", State: Refused}}, start)
	at := start.Add(time.Second)
	want := Attempt{Time: start, Outcome: Outcome{Pod: named("ns", "a"), UID: "uid-a", State: Evicted, Since: at},
		Controllers: map[types.UID]types.UID{"uid-a": "owner", "uid-b": "other"}}
	for i, pods := range [][]corev1.Pod{{pod("a", terminatingSince(at))}, nil, {pod("c", createdAt(at))}} {
		want.Returned = i == 2
		if _, r = Decide(factsOf(policy, pods...), policy, r.Attempts, StartAt(start), start.Add(RetryInterval)); cmp.Diff(Attempts{"uid-a": want}, r.Attempts) != "" {
			t.Errorf("with %d pods: %s", len(pods), cmp.Diff(Attempts{"uid-a": want}, r.Attempts))
		}
	}
	if !r.Stuck() {
		t.Errorf("the successor is evicted: %+v", r.Pods)
	}
}

// What a controller did in one drain of a node it does in the next one, a day long: otherwise each retry of an operation would evict
// the node's pods once more, without effect.
func TestAPodThatCameBackInAnEarlierDrainIsNotEvictedInTheNext(t *testing.T) {
	policy, evicted := policyOf(t, nil), Outcome{Pod: named("ns", "a"), UID: "uid-a", State: Evicted}
	first := Attempts{"uid-a": {Time: start, Outcome: evicted, Controllers: map[types.UID]types.UID{"uid-a": "owner"}}}
	_, r := Decide(factsOf(policy, pod("b", createdAt(start), tolerating)), policy, first, StartAt(start), start.Add(RetryInterval))
	if gone := first.Carried(start); len(gone) > 0 {
		t.Errorf("an eviction that was not futile is carried over: %+v", gone)
	}
	later := start.Add(24 * time.Hour)
	for _, tc := range []struct {
		name    string
		pod     corev1.Pod
		now     time.Time
		blocked bool
	}{
		{"the one that came back", pod("b", createdAt(start), tolerating), later, true},
		{"another one", pod("c", createdAt(later), tolerating), later, true},
		{"one of a day later", pod("c", createdAt(later), tolerating), later.Add(time.Second), false},
		{"one that does not tolerate the cordon, and came while the node was in service", pod("c", createdAt(later)), later, false},
		{"one of another controller", pod("c", createdAt(later), tolerating, of("other")), later, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			attempts := r.Attempts.Carried(tc.now)
			for range 2 { // the drain in between is refused
				evict, r := decide(factsOf(policy, tc.pod), policy, attempts, StartAt(tc.now), tc.now)
				if got := len(r.Of(Blocked)) == 1; got != tc.blocked || (len(evict) == 0) != tc.blocked {
					t.Errorf("evicted %v, outcomes %+v, want it blocked: %t", evict, r.Pods, tc.blocked)
				}
				attempts = r.Attempts.Carried(tc.now)
			}
		})
	}
}
