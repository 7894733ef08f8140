package display

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheBarHasAPlaceForEveryState(t *testing.T) {
	for _, tt := range []struct {
		counts Counts
		want   string
	}{
		{Counts{Total: 10, Pending: 7, Held: 3}, "[..........]"},
		{Counts{Total: 10, Updated: 10}, "[##########]"},
		{Counts{Total: 1000, Updated: 1, InFlight: 1, Failed: 1, Skipped: 1, Held: 996}, "[#>xo......]"},
		{Counts{Total: 1000, Updated: 997, InFlight: 1, Failed: 1, Skipped: 1}, "[#######>xo]"},
		{Counts{}, ""},
	} {
		if got := tt.counts.Bar(10, Style{}); got != tt.want {
			t.Errorf("%v is %s, want %s", tt.counts, got, tt.want)
		}
	}
}

func TestRollbacksOfThePolicy(t *testing.T) {
	begun, done := metav1.NewTime(now.Add(-90*time.Second)), metav1.NewTime(now)
	rb := RolledBack{From: "bad", To: "good", Message: "back to gpu-1, the last known good revision: 1 of 1 started nodes failed (a)", Time: begun}
	for _, tt := range []struct {
		name string
		done *metav1.Time
		wide bool
		want string
	}{
		{"is over", &done, false, "  rolled back by policy 90s ago: "},
		{"goes on", nil, false, "  is being rolled back by policy for 90s: "},
		{"with its revisions", &done, true, "  rolled back by policy 90s ago, from revision bad to good: "},
	} {
		rb.Done = tt.done
		if got := rb.text(Style{Now: now, Wide: tt.wide}); got != tt.want+rb.Message+"\n" {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	rb.Rejected = "gpu-2"
	if got := rb.text(Style{Now: now}); !strings.HasSuffix(got, "(a)\n  gpu-2 is rejected until the spec changes or the rollout is resumed\n") {
		t.Errorf("of a gr: %q", got)
	}
}
