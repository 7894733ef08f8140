package observed

import (
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

// TestARejectedTargetWaitsWhateverTheCachesShow: that of ControllerRevisions may be older than that of DaemonSets.
func TestARejectedTargetWaitsWhateverTheCachesShow(t *testing.T) {
	r := &topsv1.DaemonRollout{}
	r.Status.Rollback = &topsv1.RolloutRollback{From: "r2", To: "r1", RejectedRevision: "fleet-2", GcuResourceRevision: "fleet-1"}
	for name, c := range map[string]struct {
		revision, inPlaceOf, target string
		blocked                     bool
	}{
		"the rejected spec":                      {"fleet-2", "", "r2", true},
		"the good spec with its target":          {"fleet-1", "fleet-2", "r1", false},
		"the good spec with the rejected target": {"fleet-1", "fleet-2", "r2", true},
		"another spec":                           {"fleet-3", "", "r3", false},
	} {
		t.Run(name, func(t *testing.T) {
			ds := fixture.DaemonSet("driver")
			fixture.Annotate(ds, topsv1.AnnotationRevision, c.revision)
			fixture.Annotate(ds, topsv1.AnnotationRejectedRevision, c.inPlaceOf)
			if got := rejected(r, KindGcuResource, c.target, []Member{{DaemonSet: ds}}); (got != nil) != c.blocked {
				t.Errorf("blocked by %+v, want %v", got, c.blocked)
			}
		})
	}
}
