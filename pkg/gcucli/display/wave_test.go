package display

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestApprove(t *testing.T) {
	tests := []struct {
		name, wave, want, err string
		already               bool
		edit                  func(*fixture)
	}{
		{name: "the one that waits, beside older approvals", wave: "main", want: "old/main,bbb/main"},
		{name: "an approval for another revision is none", wave: "main", want: "ccc/main,bbb/main", edit: func(f *fixture) {
			f.Rollout.Annotations[topsv1.AnnotationApprovedWaves] = "ccc/main"
		}},
		{name: "twice is once", wave: "main", want: " bbb/main ,x", already: true, edit: func(f *fixture) {
			f.Rollout.Annotations[topsv1.AnnotationApprovedWaves] = " bbb/main ,x"
		}},
		{name: "not one that needs none", wave: "canary", err: "wave canary does not wait for an approval, it is Complete; wave main waits"},
		{name: "not one that does not exist", wave: "second", err: `the rollout has no wave "second"; wave main waits`},
		{name: "not ahead, before the wave before is complete", wave: "main", err: "it is NotReached; no wave waits", edit: func(f *fixture) {
			f.Rollout.Status.Waves[0].CompletedTime = nil
		}},
		{name: "not ahead, while the wave before soaks", wave: "main", err: "it is NotReached; no wave waits", edit: func(f *fixture) {
			f.Rollout.Status.Waves[0].CompletedTime = ptr.To(metav1.NewTime(now.Add(-9 * time.Minute)))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := load(t, "rolling")
			if tt.edit != nil {
				tt.edit(f)
			}
			got, already, err := Approve(f.Rollout, WavesOf(f.Rollout, f.Policy, nil, now), tt.wave)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want || already != tt.already {
				t.Errorf("got %q, %v, %v, want %q, %v", got, already, err, tt.want, tt.already)
			}
		})
	}
}
