package nodeupgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAWholeOperation(t *testing.T) {
	s := newStage(t, driver, toolkit, plugin, exporter, "nfd")
	s.workload("train")
	for _, c := range []string{driver, toolkit, exporter} {
		s.publish(c, "v2")
	}
	s.offer("op1", driver, toolkit, exporter)
	if got := s.untilOver(); got != "Done Succeeded" {
		t.Fatal(got, s.upgrade().Status.Operation.Message)
	}
	if got := s.revisions(); got != "devicePlugin v1, driver v2, exporter v2, nfd v1, toolkit v2" {
		t.Error(got)
	}
	if got := s.marks(); got != "" {
		t.Error(got)
	}
	want := map[string]int{driver: 2, toolkit: 2, plugin: 2, exporter: 2, "nfd": 1}
	if diff := cmp.Diff(want, s.created); diff != "" {
		t.Errorf("pods that were made: %s", diff)
	}
	t.Log(s.events.lines)
	for _, w := range s.line.writes {
		t.Log(w)
	}
}
