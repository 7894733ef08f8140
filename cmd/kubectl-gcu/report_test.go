package main

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

func TestReport(t *testing.T) {
	s := newSite(t)
	s.gr("reported")
	s.says(s.gcu("report", "reported"), exitRefused, "gr reported has no rollout: no annotation")
	entry := func(event topsv1.RolloutEvent, revision, spec, limit string) topsv1.RolloutRecordEntry {
		return topsv1.RolloutRecordEntry{Time: metav1.Now(), Event: event, Revision: revision, Subject: spec, Limit: limit, By: "alice", Nodes: 1}
	}
	s.rollout("reported", topsv1.DaemonRolloutStatus{Revision: "r2", Record: []topsv1.RolloutRecordEntry{
		entry(topsv1.RecordStarted, "r1", "reported-1", ""), entry(topsv1.RecordComplete, "r1", "", ""), entry(topsv1.RecordStarted, "r2", "reported-2", "plan=monday")}})
	s.says(s.gcu("report", "reported"), exitOK, "# Upgrade of gr reported", "| State | in progress |", "| Asked by | alice |", "reported-2")
	s.says(s.gcu("report", "reported", "--revision", "reported-1"), exitOK, "| State | complete |")
	s.says(s.gcu("report", "reported", "--plan", "monday", "-o", "html"), exitOK, "<!doctype html>", "plan=monday")
	s.says(s.gcu("report", "reported", "--plan", "tuesday"), exitRefused, "has no such upgrade; it has plan monday, revision reported-1")
	s.says(s.gcu("report", "reported", "-o", "pdf"), exitUsage, "not one of markdown, json, html")
	var document struct {
		AskedBy, State string
		Timeline       []struct{ What, By string }
	}
	a := s.says(s.gcu("report", "reported", "-o", "json"), exitOK)
	if err := json.Unmarshal([]byte(a.out), &document); err != nil || document.AskedBy != "alice" || len(document.Timeline) != 1 {
		t.Errorf("%v: %s", err, a.out)
	}
	for flag, want := range map[string]string{"--plan": "monday", "--revision": "reported-1"} {
		if a := s.gcu("__complete", "report", "reported", flag, ""); !strings.Contains(a.out, want+"\n") {
			t.Errorf("%s completes with %q", flag, a.out)
		}
	}
}

// Every change by the plugin says who asked.
func TestChangesAreSigned(t *testing.T) {
	s := newSite(t)
	gr := s.gr("signed")
	signed := func(o metav1.Object, verb string) {
		t.Helper()
		if asked := askedby.Of(o.GetAnnotations()); asked.Verb != verb || asked.User == "" || asked.Time.IsZero() {
			t.Errorf("%s is signed as %+v", verb, asked)
		}
	}
	s.says(s.gcu("pause", "signed"), exitOK)
	s.read(gr)
	signed(gr, askedby.Pause)
	s.says(s.gcu("resume", "signed"), exitOK)
	s.read(gr)
	signed(gr, askedby.Resume)
	s.says(s.gcuWith(t.Context(), grFile("signed", "2.0"), "upgrade", "-f", "-"), exitOK)
	s.read(gr)
	signed(gr, askedby.Upgrade)
	upgrade := s.upgrade("signed-1", func(*topsv1.NodeUpgrade) {})
	s.says(s.gcu("hold", "signed-1", "-m", "why"), exitOK)
	s.read(upgrade)
	signed(upgrade, askedby.Hold)
	s.says(s.gcu("hold", "signed-1", "-m", "another reason"), exitOK)
	s.read(upgrade)
	if hold := daemonset.OfAdministrator(upgrade); hold == nil || hold.User == "" || hold.Message != "another reason" {
		t.Errorf("the hold is %+v", hold)
	}
	s.says(s.gcu("release", "signed-1"), exitOK)
	s.read(upgrade)
	signed(upgrade, askedby.Release)
}
