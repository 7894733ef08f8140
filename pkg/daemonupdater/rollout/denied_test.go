package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// denied returns a node whose pod may not be deleted, which is to be tried again now.
func denied(n Node) Node {
	n.Denied = &Denial{Pod: n.Pods[0].UID, Since: epoch.Add(-time.Hour), Retry: epoch.Add(-time.Second), Message: "no"}
	return n
}

func TestNodesWhoseDeletionWasDeniedComeLast(t *testing.T) {
	a, b := nodeOf("a", oldHash), nodeOf("b", oldHash)
	for _, tt := range []struct {
		name  string
		in    Input
		start []string
	}{
		{"after a healthy node", inputOf(1, denied(a), b), []string{"b"}},
		{"whatever their names are", inputOf(1, a, denied(b)), []string{"a"}},
		{"after others that are unavailable too", inputOf(1, denied(broken(nodeOf("a", oldHash))), broken(nodeOf("b", oldHash))), []string{"b"}},
		{"and start when no other can", inputOf(1, denied(a), held(b)), []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.start, Plan(tt.in).Started, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("started (-want +got):\n%s", diff)
			}
		})
	}
}
