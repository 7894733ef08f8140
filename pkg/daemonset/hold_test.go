package daemonset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestHoldsOf(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const at = "2026-01-01T00:00:00Z"
	byNode := Hold{By: ByNode, Since: since, Message: "surgery"}
	admin := func(since time.Time, message string) Hold {
		return Hold{By: ByAdministrator, Since: since, Message: message}
	}
	of := func(node bool, annotations map[string]string) *topsv1.NodeUpgrade {
		u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: annotations}}
		u.Status.Agent = &topsv1.AgentStatus{}
		if node {
			u.Status.Agent.Hold = &topsv1.NodeHold{Since: metav1.NewTime(since), Message: "surgery"}
		}
		return u
	}
	annotated := func(value string) map[string]string { return map[string]string{topsv1.AnnotationHold: value} }
	for _, tt := range []struct {
		name    string
		upgrade *topsv1.NodeUpgrade
		want    []Hold
		words   string
	}{
		{"no NodeUpgrade", nil, nil, ""},
		{"nobody", of(false, nil), nil, ""},
		{"the person at the node", of(true, nil), []Hold{byNode}, "held locally on the node since " + at + ", release it with node-agent ota release there: surgery"},
		{"an administrator", of(false, annotated(HoldValue(since, "new rack"))), []Hold{admin(since, "new rack")},
			"held by an administrator since " + at + ", release it with kubectl gcu release a: new rack"},
		{"an administrator with a name", of(false, map[string]string{topsv1.AnnotationHold: HoldValue(since, "new rack"), topsv1.AnnotationAskedBy: at + " hold alice"}),
			[]Hold{{By: ByAdministrator, User: "alice", Since: since, Message: "new rack"}}, "held by alice since " + at + ", release it with kubectl gcu release a: new rack"},
		{"somebody else after that", of(false, map[string]string{topsv1.AnnotationHold: HoldValue(since, ""), topsv1.AnnotationAskedBy: "2025-01-01T00:00:00Z hold alice"}),
			[]Hold{admin(since, "")}, "held by an administrator since " + at + ", release it with kubectl gcu release a"},
		{"an administrator without a word", of(false, annotated(HoldValue(since, ""))), []Hold{admin(since, "")},
			"held by an administrator since " + at + ", release it with kubectl gcu release a"},
		{"both", of(true, annotated(HoldValue(since, ""))), []Hold{byNode, admin(since, "")},
			"held locally on the node since " + at + ", release it with node-agent ota release there: surgery; " +
				"held by an administrator since " + at + ", release it with kubectl gcu release a"},
		{"an annotation by hand", of(false, annotated("new rack")), []Hold{admin(time.Time{}, "new rack")},
			"held by an administrator, release it with kubectl gcu release a: new rack"},
		{"an empty annotation", of(false, annotated("")), []Hold{admin(time.Time{}, "")},
			"held by an administrator, release it with kubectl gcu release a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := HoldsOf(tt.upgrade)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("holds (-want +got):\n%s", diff)
			}
			if words := HoldWords(got, "a"); words != tt.words {
				t.Errorf("words %q, want %q", words, tt.words)
			}
		})
	}
}
