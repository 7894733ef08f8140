package observed

import (
	"testing"

	"github.com/topsops/gcu-operator/test/fixture"
)

func TestAPreviewIsOfTheFutureTemplate(t *testing.T) {
	m := memberWith(fixture.DaemonSet("driver")).Member
	if got, err := m.Target(); err != nil || got != fixture.NewHash {
		t.Errorf("target %q, %v", got, err)
	}
	m.Foreseen = "future"
	if got, err := m.Target(); err != nil || got != "future" {
		t.Errorf("foreseen target %q, %v", got, err)
	}
}
