package eviction

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func withCause(err *apierrors.StatusError, cause metav1.CauseType, says string) error {
	if err.ErrStatus.Details == nil {
		err.ErrStatus.Details = &metav1.StatusDetails{}
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause, Message: says})
	return fmt.Errorf("wrapped: %w", err)
}

func TestResponseTo(t *testing.T) {
	pods := corev1.Resource("pods")
	const needs = "The disruption budget web needs 2 healthy pods and has 2 currently"
	for _, tc := range []struct {
		name string
		err  error
		want Outcome
	}{
		{"evicted", nil, Outcome{State: Evicted}},
		{"gone", apierrors.NewNotFound(pods, "a"), Outcome{State: Gone}},
		{"another pod of its name", apierrors.NewConflict(pods, "a", errors.New("the UID in the precondition does not match")), Outcome{State: Gone}},
		{"denied by a webhook with the code of a conflict", apierrors.NewConflict(pods, "a", errors.New(`admission webhook "no.example.com" denied the request: no`)),
			Outcome{State: Failed, Reason: `Operation cannot be fulfilled on pods "a": admission webhook "no.example.com" denied the request: no`}},
		{"refused by a budget", withCause(apierrors.NewTooManyRequests("Cannot evict pod", 0), policyv1.DisruptionBudgetCause, needs),
			Outcome{State: Refused, Reason: needs, Budget: named("ns", "web")}},
		{"refused in words that are not known", withCause(apierrors.NewTooManyRequests("Cannot evict pod", 0), policyv1.DisruptionBudgetCause, "No."),
			Outcome{State: Refused, Reason: "No.", Budget: named("ns", "")}},
		{"a server that is too busy", apierrors.NewTooManyRequests("too many requests", 1), Outcome{State: Failed, Reason: "too many requests"}},
		{"a server that is too busy and says why", withCause(apierrors.NewTooManyRequests("too many requests", 1), metav1.CauseTypeUnexpectedServerResponse, "slow down"),
			Outcome{State: Failed, Reason: "wrapped: too many requests"}},
		{"a namespace that is being deleted", withCause(apierrors.NewForbidden(pods, "a", errors.New("no")), corev1.NamespaceTerminatingCause, "ns"),
			Outcome{State: Failed, Reason: "its namespace is being deleted, and the pod with it"}},
		{"any other error", errors.New("no response"), Outcome{State: Failed, Reason: "no response"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Pod = named("ns", "a")
			if diff := cmp.Diff(tc.want, ResponseTo(Outcome{Pod: named("ns", "a")}, false, tc.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func outcomes(ready bool, states ...State) Result {
	r := Result{NodeReady: ready}
	for i, s := range states {
		r.Pods = append(r.Pods, Outcome{Pod: named("ns", fmt.Sprintf("p%d", i)), State: s})
	}
	return r
}

func TestAPodThatDoesNotEndKeepsItsNodeFromBeingDrained(t *testing.T) {
	r := outcomes(true, Terminating)
	if r.Stuck() {
		t.Error("it may end")
	}
	r.Pods[0].Reason = "although its grace period ended at noon"
	if want := "terminating although its grace period ended at noon: ns/p0"; !r.Stuck() || r.Message() != want {
		t.Errorf("stuck: %t, %q, want %q", r.Stuck(), r.Message(), want)
	}
}

func TestTheMessageNamesPodsAndWhatHoldsThem(t *testing.T) {
	r := outcomes(true, Terminating, Refused, Blocked, Refused, Failed, Skipped, Refused)
	for i, budget := range map[int]string{1: "web", 3: "db", 6: "web"} {
		r.Pods[i].Budget = named("ns", budget)
	}
	r.Pods[2].Reason, r.Pods[4].Reason = "no controller", "no response"
	want := "PodDisruptionBudget ns/db refuses: ns/p3; PodDisruptionBudget ns/web refuses: ns/p1, ns/p6; " +
		"blocked, no controller: ns/p2; failed, no response: ns/p4; terminating: ns/p0"
	if diff := cmp.Diff(want, r.Message()); diff != "" {
		t.Error(diff)
	}
}

func TestADrainIsEndingWhenOnlyPodsAreLeftThatGo(t *testing.T) {
	for _, tc := range []struct {
		name   string
		result Result
		want   bool
	}{
		{"one that terminates", outcomes(true, Skipped, Terminating), true},
		{"one beside it", outcomes(true, Terminating, Refused), false},
		{"one that does not end", Result{NodeReady: true, Pods: []Outcome{{State: Terminating}, {State: Terminating, Reason: "although its grace period ended at noon"}}}, false},
		{"skipped ones", outcomes(true, Skipped), false},
		{"a node that nobody sees", outcomes(false, Terminating), false},
	} {
		if got := tc.result.Ending(); got != tc.want {
			t.Errorf("%s: ending is %t", tc.name, got)
		}
	}
}

func TestANodeIsEmptyOnceItIsSeenToHaveOnlyWhatTheDrainSkips(t *testing.T) {
	for _, tc := range []struct {
		name   string
		result Result
		want   bool
	}{
		{"no pods", Result{NodeReady: true}, true},
		{"skipped ones", Result{NodeReady: true, Pods: []Outcome{{State: Skipped}}}, true},
		{"one that terminates", Result{NodeReady: true, Pods: []Outcome{{State: Skipped}, {State: Terminating}}}, false},
		{"a node that nobody sees", Result{Pods: []Outcome{{State: Skipped}}}, false},
	} {
		if got := tc.result.Done(); got != tc.want {
			t.Errorf("%s: done is %t", tc.name, got)
		}
	}
}
