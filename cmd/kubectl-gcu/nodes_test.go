package main

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcucli/dashboard"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// What is on the screen of a watch is never wrong in silence.
func TestAWatchOfNodesSaysWhatChanged(t *testing.T) {
	failed := display.Node{Name: "a", State: "failed", Reason: "CrashLooping", Operation: &display.Operation{ID: "op-1"}}
	again := failed
	again.Operation = &display.Operation{ID: "op-2"}
	pending := display.Node{Name: "a", State: "pending", Reason: "BudgetExhausted"}
	other := display.Node{Name: "b", State: "pending", Reason: "BudgetExhausted"}
	for _, tt := range []struct {
		name, state, format string
		before, after       []display.Node
		want                string
	}{
		{"nothing", "", formatTable, []display.Node{failed}, []display.Node{failed}, ""},
		{"a node changed", "", formatTable, []display.Node{failed}, []display.Node{pending}, "12:00:00 a: pending BudgetExhausted\n"},
		{"a node is gone", "", formatTable, []display.Node{failed, other}, []display.Node{other}, "12:00:00 a: gone\n"},
		{"a node is new", "", formatTable, []display.Node{}, []display.Node{other}, "12:00:00 b: pending BudgetExhausted\n"},
		{"a node left the state", "failed", formatTable, []display.Node{failed, other}, []display.Node{pending, other}, "12:00:00 a: no longer failed: now pending BudgetExhausted\n"},
		{"a node in the state is gone", "failed", formatTable, []display.Node{failed, other}, []display.Node{other}, "12:00:00 a: gone\n"},
		{"a node in another state is gone", "failed", formatTable, []display.Node{failed, other}, []display.Node{failed}, ""},
		{"a node came into the state", "failed", formatTable, []display.Node{pending}, []display.Node{failed}, "12:00:00 a: failed CrashLooping\n"},
		{"another operation", "", formatTable, []display.Node{failed}, []display.Node{again}, ""},
		{"another operation, wide", "", formatWide, []display.Node{failed}, []display.Node{again}, "12:00:00 a: failed CrashLooping; operation op-2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var screen strings.Builder
			out := terminal{genericiooptions.IOStreams{Out: &screen}}
			r := &nodeTable{output: output{format: tt.format}, state: tt.state}
			noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			if err := r.print(out, tt.before, noon); err != nil {
				t.Fatal(err)
			}
			if table := screen.String(); strings.Contains(table, "OPERATION") != (tt.format == formatWide && len(tt.before) > 0) {
				t.Errorf("the table is\n%s", table)
			}
			screen.Reset()
			if err := r.print(out, tt.after, noon); err != nil || screen.String() != tt.want {
				t.Errorf("%v: it prints %q, want %q", err, screen.String(), tt.want)
			}
		})
	}
}

// The caches go on to answer while the API server does not.
func TestAWatchOfNodesSaysThatItIsNotUpToDate(t *testing.T) {
	var screen strings.Builder
	var refused error
	l := linkReporter{terminal: terminal{genericiooptions.IOStreams{Out: &screen}}, link: dashboard.NewLink(func(context.Context) error { return refused })}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, look := range []struct {
		after time.Duration
		err   error
	}{{0, nil}, {time.Second, errors.New("not asked for so soon")}, {time.Minute, errors.New("connection refused")}, {2 * time.Minute, errors.New("connection refused")}, {3 * time.Minute, nil}} {
		refused = look.err
		l.look(t.Context(), noon.Add(look.after))
	}
	if want := "12:01:00 not up to date: connection refused\n12:03:00 up to date again\n"; screen.String() != want {
		t.Errorf("printed %q, want %q", screen.String(), want)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	screen.Reset()
	refused = context.Canceled
	if l.look(stopped, noon.Add(time.Hour)); screen.String() != "" {
		t.Errorf("after it was stopped it says %q", screen.String())
	}
}

// A device plugin that offers cards under further names is shown by a watch as by the table.
func TestAWatchOfNodesKnowsTheNamesOfCards(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "plugin", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "beside", Image: "beside:1", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}},
			{Name: "main", Image: "plugin:1", Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: daemonset.VariableOfResources, Value: "a.com/x"}}}}}}
	if _, err := trimmed(pod); err != nil {
		t.Fatal(err)
	}
	want := []corev1.Container{{Env: []corev1.EnvVar{{Name: daemonset.VariableOfResources, Value: "a.com/x"}}}}
	if !reflect.DeepEqual(pod.Spec.Containers, want) || !slices.Equal(daemonset.FurtherResources(&pod.Spec), []corev1.ResourceName{"a.com/x"}) {
		t.Errorf("the containers are %+v, want only what names resources", pod.Spec.Containers)
	}
	pod.OwnerReferences[0].Kind, pod.Spec.Containers = "ReplicaSet", want
	if _, err := trimmed(pod); err != nil || len(pod.Spec.Containers) > 0 {
		t.Errorf("%v; of a pod of no DaemonSet it keeps %+v", err, pod.Spec.Containers)
	}
}
