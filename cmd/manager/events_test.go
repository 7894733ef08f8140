package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// recording is a manager that keeps its events.
type recording struct {
	ctrl.Manager
	events.FakeRecorder
}

// GetEventRecorder implements recorder.Provider.
func (r *recording) GetEventRecorder(string) recorder.EventRecorder { return &r.FakeRecorder }

func TestEventsArePlainAndNotTooLong(t *testing.T) {
	kept := &recording{FakeRecorder: events.FakeRecorder{Events: make(chan string, 2)}}
	plain := withPlainEvents{kept}.GetEventRecorder("x")
	plain.Eventf(nil, nil, corev1.EventTypeWarning, "Failed", "Operation", "%s: %s", "node-1", "\x1b[2J\u009b\u202e\nFORGED 100%d")
	plain.AnnotatedEventf(nil, nil, nil, corev1.EventTypeNormal, "Done", "Operation", "%s", strings.Repeat("é", 600))
	got := []string{<-kept.Events, <-kept.Events}
	want := []string{`Warning Failed node-1: \u001b[2J\u009b\u202e\nFORGED 100%d`, "Normal Done " + strings.Repeat("é", 510) + "…"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	mgr, err := newManager(&rest.Config{Host: "http://127.0.0.1:1"}, options{metrics: metricsOptions{addr: "0"}, probeAddr: "0", namespace: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := mgr.GetEventRecorder("x").(plainRecorder); !ok {
		t.Error("the manager's own recorders are not plain")
	}
}
