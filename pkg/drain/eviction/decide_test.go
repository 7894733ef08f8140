package eviction

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// drainPolicy returns the default policy with a change.
func drainPolicy(change func(*topsv1.DrainPolicy)) *topsv1.DrainPolicy {
	d := DefaultPolicy()
	change(&d)
	return &d
}

func named(ns, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: ns, Name: name}
}

// factsOf returns the facts of a Ready n1 without objections from kubectl's filters.
func factsOf(p Policy, pods ...corev1.Pod) Facts {
	f := Facts{NodeReady: true}
	f.Pods = Candidates("n1", pods, nil, p)
	return f
}

// TestDecide decides about one pod, half a minute after the drain began.
func TestDecide(t *testing.T) {
	const (
		losesData = "Pods with local storage (drain.emptyDir: Delete evicts them)"
		losesPod  = "Pods that declare no controller (drain.unmanaged: Delete evicts them)"
	)
	both := Pod{LosesData: "Pods with local storage", LosesPod: "Pods that declare no controller"}
	data, itself := Pod{LosesData: both.LosesData}, Pod{LosesPod: both.LosesPod}
	all := func(d *topsv1.DrainPolicy) { d.Scope = topsv1.DrainAll }
	waits := func(d *topsv1.DrainPolicy) { d.WaitForJobsSeconds = 31 }
	type outcome struct {
		State  State
		Reason string
		Since  time.Time
	}
	for _, tc := range []struct {
		name   string
		pod    corev1.Pod
		policy func(*topsv1.DrainPolicy)
		facts  func(*Facts)
		// filtered is the verdict of kubectl's filters.
		filtered Pod
		evict    bool
		want     *outcome // nil: out of scope, or evicted
	}{
		{name: "evicts a pod that uses the accelerator", pod: pod("a"), evict: true},
		{name: "is not about a pod that does not", pod: pod("a", withoutGCU), filtered: Pod{LosesData: "x", LosesPod: "y"}},
		{name: "evicts any pod with scope All", pod: pod("a", withoutGCU), policy: all, evict: true},
		{name: "is about no pod with scope None", pod: pod("a"), policy: func(d *topsv1.DrainPolicy) { d.Scope = topsv1.DrainNone }},
		{name: "is not about a finished pod", pod: pod("a", inPhase(corev1.PodFailed))},
		{name: "is not about a pod on another node", pod: podOn("n2", "a")},
		{name: "evicts a pod that has not started", pod: pod("a", inPhase(corev1.PodPending)), evict: true},
		{name: "skips a pod that the selector leaves", pod: pod("a", labeled("keep", "yes")),
			policy: func(d *topsv1.DrainPolicy) {
				d.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "keep", Operator: metav1.LabelSelectorOpDoesNotExist}}}
			}, want: &outcome{State: Skipped, Reason: "podSelector of the policy leaves it"}},
		{name: "skips a pod of a DaemonSet", pod: pod("a"), filtered: Pod{Stays: "ignoring DaemonSet-managed Pods"}, want: &outcome{State: Skipped, Reason: "ignoring DaemonSet-managed Pods"}},
		{name: "skips a static pod with scope All", pod: pod("a"), filtered: Pod{Stays: "ignoring static Pods"}, policy: all, want: &outcome{State: Skipped, Reason: "ignoring static Pods"}},
		{name: "never evicts its own pod, by UID", pod: pod("a", withoutGCU), policy: all,
			facts: func(f *Facts) { f.Self.UID = "uid-a" }, want: &outcome{State: Skipped, Reason: "the operator runs in it"}},
		{name: "never evicts its own pod, by name", pod: pod("a", withoutGCU), policy: all,
			facts: func(f *Facts) { f.Self.NamespacedName = named("ns", "a") }, want: &outcome{State: Skipped, Reason: "the operator runs in it"}},
		{name: "evicts a pod of its name in another namespace", pod: pod("a"),
			facts: func(f *Facts) { f.Self.NamespacedName = named("other", "a") }, evict: true},
		{name: "says when a DaemonSet could not be looked up", pod: pod("a"), filtered: Pod{Unknown: "no response"}, want: &outcome{State: Failed, Reason: "no response"}},

		{name: "blocks on an emptyDir", pod: pod("a"), filtered: data, want: &outcome{State: Blocked, Reason: losesData}},
		{name: "blocks on an unmanaged pod", pod: pod("a"), filtered: itself, want: &outcome{State: Blocked, Reason: losesPod}},
		{name: "says both", pod: pod("a"), filtered: both, want: &outcome{State: Blocked, Reason: losesData + ", " + losesPod}},
		{name: "evicts a pod with an emptyDir when told to", pod: pod("a"), filtered: data,
			policy: func(d *topsv1.DrainPolicy) { d.EmptyDir = topsv1.DrainDelete }, evict: true},
		{name: "evicts an unmanaged pod when told to", pod: pod("a"), filtered: itself,
			policy: func(d *topsv1.DrainPolicy) { d.Unmanaged = topsv1.DrainDelete }, evict: true},
		{name: "does not take one permission for the other", pod: pod("a"), filtered: itself,
			policy: func(d *topsv1.DrainPolicy) { d.EmptyDir = topsv1.DrainDelete }, want: &outcome{State: Blocked, Reason: losesPod}},

		{name: "waits for a pod that terminates, since it was asked", pod: pod("a", terminatingSince(start.Add(10*time.Second))), filtered: itself,
			want: &outcome{State: Terminating, Since: start.Add(10 * time.Second)}},
		{name: "leaves a pod of a Job to complete", pod: pod("a", ownedBy("batch/v1", "Job")), filtered: data, policy: waits,
			want: &outcome{State: Running, Reason: losesData}},
		{name: "leaves a pod of a volcano Job to complete", pod: pod("a", ownedBy("batch.volcano.sh/v1alpha1", "Job")), policy: waits,
			want: &outcome{State: Running}},
		{name: "evicts a pod of a Job when its time is over", pod: pod("a", ownedBy("batch/v1", "Job")),
			policy: func(d *topsv1.DrainPolicy) { d.WaitForJobsSeconds = 30 }, evict: true},
		{name: "waits for no other pod when it waits for Jobs", pod: pod("a"), policy: waits, evict: true},

		{name: "evicts nothing on a node that is not Ready", pod: pod("a"),
			facts: func(f *Facts) { f.NodeReady = false }, want: &outcome{State: Unconfirmed, Reason: "the node is not Ready"}},
		{name: "says since when nobody confirms that a pod is gone", pod: pod("a", terminatingSince(start)),
			facts: func(f *Facts) { f.NodeReady = false }, want: &outcome{State: Unconfirmed, Reason: "the node is not Ready", Since: start}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := policyOf(t, nil)
			if tc.policy != nil {
				policy = policyOf(t, drainPolicy(tc.policy))
			}
			facts := factsOf(policy, tc.pod)
			for i := range facts.Pods {
				tc.filtered.Pod = facts.Pods[i].Pod
				facts.Pods[i] = tc.filtered
			}
			if tc.facts != nil {
				tc.facts(&facts)
			}
			evict, r := decide(facts, policy, nil, StartAt(start), start.Add(30*time.Second))
			if got := len(evict) == 1; got != tc.evict {
				t.Errorf("evicts it: %t, want %t", got, tc.evict)
			}
			var want []Outcome
			if tc.want != nil {
				want = []Outcome{{Pod: named("ns", "a"), UID: "uid-a", State: tc.want.State, Reason: tc.want.Reason, Since: tc.want.Since}}
			}
			if diff := cmp.Diff(want, r.Pods); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPodIsNotTriedAgainBeforeItsTime(t *testing.T) {
	refused := Outcome{Pod: named("ns", "a"), UID: "uid-a", State: Refused, Reason: "cause", Budget: named("ns", "budget")}
	tried := Attempts{"uid-a": {Time: start, Outcome: refused}, "uid-of-the-past": {Time: start}}
	facts := factsOf(policyOf(t, nil), pod("a"), pod("b"))
	controllers := map[types.UID]types.UID{"uid-a": "owner", "uid-b": "owner"}
	for _, tc := range []struct {
		name  string
		after time.Duration
		evict []string
		want  Result
	}{
		{"says again what was said within five seconds", RetryInterval - time.Nanosecond, nil,
			Result{NodeReady: true, Pods: []Outcome{refused, {Pod: named("ns", "b"), UID: "uid-b", State: Due}}, Attempts: Attempts{"uid-a": tried["uid-a"]}, Controllers: controllers}},
		{"tries again after five seconds", RetryInterval, []string{"a", "b"}, Result{NodeReady: true, Attempts: Attempts{}, Controllers: controllers}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			evict, r := decide(facts, policyOf(t, nil), tried, StartAt(start), start.Add(tc.after))
			if diff := cmp.Diff(tc.evict, evict); diff != "" {
				t.Errorf("evictions: %s", diff)
			}
			if diff := cmp.Diff(tc.want, r, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The drain of a node that cannot be emptied would evict the others on each retry.
func TestNoPodIsEvictedWhileOneCannotLeave(t *testing.T) {
	blocked := Pod{LosesData: "Pods with local storage"}
	wait := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) { d.WaitForJobsSeconds = 60 }))
	for _, tc := range []struct {
		name  string
		other corev1.Pod
		with  Pod
		evict bool
		want  State
	}{
		{"the policy blocks it", pod("b"), blocked, false, Blocked},
		{"its DaemonSet could not be looked up", pod("b"), Pod{Unknown: "no response"}, false, Failed},
		{"the policy blocks it when the time of its Job is over", pod("b", ownedBy("batch/v1", "Job")), blocked, false, Running},
		{"its Job may complete", pod("b", ownedBy("batch/v1", "Job")), Pod{}, true, Running},
		{"it terminates", pod("b", terminatingSince(start)), blocked, true, Terminating},
		{"it should have ended a while ago, and may yet", pod("b", terminatingSince(start.Add(-30*time.Second-endGrace))), Pod{}, true, Terminating},
		{"it should have ended long ago", pod("b", terminatingSince(start.Add(-31*time.Second-endGrace))), Pod{}, false, Terminating},
		{"it may go on for longer than a drain", pod("b", terminatingFor(time.Hour, start.Add(-time.Second))), Pod{}, false, Terminating},
		{"it may go on for longer, since this drain evicted it", pod("b", terminatingFor(time.Hour, start)), Pod{}, true, Terminating},
		{"it stays", pod("b"), Pod{Stays: "ignoring static Pods"}, true, Skipped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			facts := factsOf(wait, pod("a"), tc.other)
			tc.with.Pod = facts.Pods[1].Pod
			facts.Pods[1] = tc.with
			evict, r := decide(facts, wait, nil, StartAt(start), start)
			if got := len(evict) == 1; got != tc.evict {
				t.Errorf("evicts the other one: %t, want %t", got, tc.evict)
			}
			if got := r.Of(tc.want); len(got) != 1 || got[0].Pod.Name != "b" {
				t.Errorf("outcomes %+v, want %s of b", r.Pods, tc.want)
			}
			if due := len(r.Of(Due)) == 1; due == tc.evict {
				t.Errorf("outcomes %+v, want a due only while it is not evicted", r.Pods)
			}
		})
	}
}

// By the clock of a manager that is a little ahead, the drain began after it had evicted the pod.
func TestAPodThatTheDrainEvictedHasItsGracePeriod(t *testing.T) {
	facts := factsOf(policyOf(t, nil), pod("a"), pod("b", terminatingFor(time.Hour, start.Add(-2*time.Second))))
	for state, want := range map[State]string{Evicted: "", Refused: "until 2026-03-01T12:59:58Z, and the drain has 5m0s"} {
		tried := Attempts{"uid-b": {Time: start, Outcome: Outcome{Pod: named("ns", "b"), UID: "uid-b", State: state}}}
		evict, r := decide(facts, policyOf(t, nil), tried, StartAt(start), start.Add(RetryInterval))
		if got := r.Of(Terminating); len(got) != 1 || got[0].Reason != want || (len(evict) == 1) != (want == "") {
			t.Errorf("%s: outcomes %+v, evictions %v, want reason %q", state, r.Pods, evict, want)
		}
	}
}

// The API server's clock may be hours from the manager's: the grace period is counted by the manager's own.
func TestAPodThatStaysIsNotTakenForOneThatEndsByAnotherClock(t *testing.T) {
	policy, late := policyOf(t, nil), start.Add(30*time.Second+endGrace)
	evicted := Attempts{"uid-a": {Time: start, Outcome: Outcome{Pod: named("ns", "a"), UID: "uid-a", State: Evicted}}}
	for name, tc := range map[string]struct {
		ahead    time.Duration
		attempts Attempts
		want     string
	}{
		"it is ahead, somebody else deleted the pod":        {3 * time.Hour, nil, "although its grace period ended at 2026-03-01T12:00:30Z"},
		"it is ahead, the drain evicted the pod":            {3 * time.Hour, evicted, "although its grace period ended at 2026-03-01T12:00:30Z"},
		"it is behind, the drain evicted the pod":           {-3 * time.Hour, evicted, "although its grace period ended at 2026-03-01T12:00:30Z"},
		"somebody deletes the pod when the drain has begun": {6 * time.Minute, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(policy, pod("a", terminatingSince(start.Add(tc.ahead))))
			for now, want := range map[time.Time]string{late: "", late.Add(time.Second): tc.want} {
				_, r := decide(facts, policy, tc.attempts, StartAt(start), now)
				if got := r.Of(Terminating); len(got) != 1 || !strings.HasPrefix(got[0].Reason, want) || (got[0].Reason == "") != (want == "") {
					t.Errorf("after %s: outcomes %+v, want reason %q", now.Sub(start), r.Pods, want)
				}
			}
		})
	}
}

// Others must not leave before it is known that a pod which leaves later may.
func TestAPodThatLeavesLaterIsAskedAbout(t *testing.T) {
	job := pod("b", ownedBy("batch/v1", "Job"))
	theirs := Pod{Stays: "ignored", DaemonSet: &appsv1.DaemonSet{}, accelerator: true}
	wait := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) { d.WaitForJobsSeconds = 60 }))
	replacing := policyOf(t, nil).ReplacingDriver(false)
	refused := Outcome{Pod: named("ns", "b"), UID: "uid-b", State: Refused, Budget: named("ns", "keep")}
	running, skipped := refused, refused
	running.State, running.Budget, running.Reason = Running, named("", ""), "PodDisruptionBudget ns/keep refuses"
	skipped.State, skipped.Budget, skipped.Reason = Skipped, named("", ""), "evicted once the node has the driver-upgrade taint"
	failed := Outcome{Pod: named("ns", "b"), UID: "uid-b", State: Failed, Reason: "no response"}
	for _, tc := range []struct {
		name     string
		pod      corev1.Pod
		with     Pod
		policy   Policy
		facts    func(*Facts)
		response Outcome // to a dry run
		asked    bool
		want     Outcome // after the response
	}{
		{name: "a Job may complete before a budget matters", pod: job, policy: wait, response: refused, asked: true, want: running},
		{name: "the device is closed without effect when a budget refuses", pod: pod("b"), with: theirs, policy: replacing, response: refused, asked: true, want: refused},
		{name: "or when nobody can say", pod: pod("b"), with: theirs, policy: replacing, response: failed, asked: true, want: failed},
		{name: "it keeps its state when it may leave", pod: pod("b"), with: theirs, policy: replacing, response: Outcome{State: Due}, asked: true, want: skipped},
		{name: "one that is blocked is not asked about", pod: job, with: Pod{LosesData: "data"}, policy: wait,
			want: Outcome{Pod: refused.Pod, UID: refused.UID, State: Running, Reason: "data (drain.emptyDir: Delete evicts them)"}},
		{name: "nor one that terminates", pod: pod("b", terminatingSince(start)), with: theirs, policy: replacing, want: skipped},
		{name: "nor one on a node that is not Ready", pod: pod("b"), with: theirs, policy: replacing, facts: func(f *Facts) { f.NodeReady = false }, want: skipped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			facts := factsOf(tc.policy, pod("a"), tc.pod)
			tc.with.Pod = facts.Pods[1].Pod
			facts.Pods[1] = tc.with
			if tc.facts != nil {
				tc.facts(&facts)
			}
			leave, r := Decide(facts, tc.policy, nil, StartAt(start), start)
			asked := slices.IndexFunc(leave, func(o Outcome) bool { return o.Pod.Name == "b" })
			if (asked >= 0) != tc.asked {
				t.Fatalf("asked about: %+v", leave)
			}
			if tc.asked {
				r.Add(leave[asked:asked+1], []Outcome{tc.response}, start)
			}
			got := r.Pods[len(r.Pods)-1]
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if !tc.asked {
				return
			}
			again := Expect(facts, tc.policy, r.Attempts, StartAt(start), start.Add(RetryInterval))
			if diff := cmp.Diff(tc.want, again.Pods[1]); diff != "" {
				t.Errorf("a look later on: %s", diff)
			}
			soon, _ := Decide(facts, tc.policy, r.Attempts, StartAt(start), start)
			if slices.ContainsFunc(soon, func(o Outcome) bool { return o.Pod.Name == "b" }) {
				t.Error("it is asked about again at once")
			}
		})
	}
}

func TestTheAnswerIsTheSameForAnyOrderOfPods(t *testing.T) {
	pods := []corev1.Pod{pod("c"), pod("a"), pod("b", ownedBy("batch/v1", "Job")), pod("d", terminatingSince(start))}
	policy := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) { d.WaitForJobsSeconds = 1 }))
	names := func(pods ...corev1.Pod) []string {
		evict, r := decide(factsOf(policy, pods...), policy, nil, StartAt(start), start)
		for _, o := range r.Pods {
			evict = append(evict, o.Pod.Name)
		}
		return evict
	}
	for _, order := range [][]corev1.Pod{{pods[0], pods[1], pods[2], pods[3]}, {pods[3], pods[2], pods[1], pods[0]}} {
		if diff := cmp.Diff([]string{"a", "c", "b", "d"}, names(order...)); diff != "" {
			t.Error(diff)
		}
	}
}

// A pod without a grace period would leave the API at once, whether or not its processes have ended.
func TestAKubeletConfirmsTheEndOfEachPod(t *testing.T) {
	for name, tc := range map[string]struct{ of, policy, want *int64 }{
		"the pod has none":                  {ptr.To(int64(0)), nil, ptr.To(int64(1))},
		"the pod has none, the policy sets": {ptr.To(int64(0)), ptr.To(int64(7)), ptr.To(int64(7))},
		"the pod's own":                     {ptr.To(int64(30)), nil, nil},
		"the pod says nothing":              {nil, nil, nil},
	} {
		pod, policy := corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: tc.of}}, Policy{gracePeriodSeconds: tc.policy}
		if diff := cmp.Diff(tc.want, Request(OutcomeOf(&pod), &policy, false).DeleteOptions.GracePeriodSeconds); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestPolicyOf(t *testing.T) {
	grace := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) { d.GracePeriodSeconds = ptr.To(int32(7)) }))
	request := Request(Outcome{Pod: named("ns", "a"), UID: "uid-a"}, &grace, false)
	want := &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(7)), Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("uid-a"))}}
	if diff := cmp.Diff(want, request.DeleteOptions); diff != "" {
		t.Error(diff)
	}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	if _, err := PolicyOf(drainPolicy(func(d *topsv1.DrainPolicy) { d.PodSelector = bad })); err == nil {
		t.Error("a selector that cannot be understood is taken for another one")
	}
}

// A manager that takes a drain over knows nothing of the evictions, and its clock may be hours from those of the one before and of
// the API server, which it knows.
func TestAManagerWithAnotherClockGoesOnWithADrain(t *testing.T) {
	policy := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) { d.WaitForJobsSeconds, d.TimeoutSeconds = 3600, 7200 }))
	const taken = 5 * time.Minute // after the beginning
	for name, tc := range map[string]struct{ former, ahead time.Duration }{
		"all clocks are right":               {0, 0},
		"its clock is ahead":                 {0, 210 * time.Minute},
		"its clock is behind":                {0, -210 * time.Minute},
		"that of the one before was ahead":   {210 * time.Minute, 0},
		"that of the one before was behind":  {-210 * time.Minute, 0},
		"its clock is ahead, as that before": {210 * time.Minute, 210 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(policy, pod("a", terminatingFor(3*time.Hour, start.Add(time.Minute))), pod("b", ownedBy("batch/v1", "Job")))
			facts.Ahead = tc.ahead
			since := Start{Recorded: start.Add(tc.former), Counted: start.Add(taken + tc.ahead)}
			if since.Recorded.After(since.Counted) {
				since.Recorded = time.Time{}
			}
			for after, want := range map[time.Duration]string{
				0: "terminating, running", time.Hour - time.Second: "terminating, running", time.Hour: "evict b, terminating", 3*time.Hour + time.Minute + endGrace - taken: "evict b, terminating",
				3*time.Hour + time.Minute + endGrace - taken + time.Second: "terminating although its grace period ended at 2026-03-01T15:01:00Z: see its finalizers, and the kubelet, due",
			} {
				evict, r := decide(facts, policy, nil, since, since.Counted.Add(after))
				var got []string
				for _, name := range evict {
					got = append(got, "evict "+name)
				}
				for _, o := range r.Pods {
					got = append(got, strings.TrimSpace(string(o.State)+" "+o.Reason))
				}
				if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
					t.Errorf("after %s: %s", after, diff)
				}
			}
		})
	}
}

// What somebody else deletes before the drain is judged by one clock, however far that of the manager is from it.
func TestAPodThatTerminatesLongerThanTheDrainHasIsSeenByAnotherClock(t *testing.T) {
	policy := policyOf(t, nil)
	for _, ahead := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		facts := factsOf(policy, pod("a"), pod("b", terminatingFor(time.Hour, start.Add(-2*time.Second))))
		facts.Ahead = ahead
		evict, r := decide(facts, policy, nil, StartAt(start.Add(ahead)), start.Add(ahead))
		want := "until 2026-03-01T12:59:58Z, and the drain has 5m0s"
		if got := r.Of(Terminating); len(got) != 1 || got[0].Reason != want || len(evict) > 0 {
			t.Errorf("%s ahead: outcomes %+v, evictions %v, want reason %q", ahead, r.Pods, evict, want)
		}
	}
}
