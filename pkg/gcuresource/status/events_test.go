package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

func TestEventsAreSentForChangesOnly(t *testing.T) {
	gr := world.NewGR(topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}})
	obs := world.New(t, gr, 1)
	obs.Component("gfd").Failure = &state.Failure{Reason: state.ReasonApplyFailed, Message: "no"}
	first := next(obs)
	want := []Event{{"Normal", "Failed", "gfd: no"}, {"Warning", "ApplyFailed", "gfd: no"}}
	if diff := cmp.Diff(want, Events(&topsv1.GcuResourceStatus{}, &first)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	obs.Run("exporter")
	second := next(obs)
	if got := Events(&first, &second); got != nil {
		t.Errorf("neither phase nor cause changed, but %v", got)
	}
}
