package deletion

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestALastSlotIsRememberedForTheGivenTime(t *testing.T) {
	var l LastSlots
	driver, other := observed.Group{Kind: "DaemonSet", Name: "driver"}, observed.Group{Kind: "DaemonSet", Name: "other"}
	at := func(after time.Duration) time.Time { return fixture.Epoch.Add(after) }
	gives := func(node string, after time.Duration) {
		l.GivenBack(driver, []rollout.Slot{{Node: node, UID: types.UID(node), Members: []string{node}}}, at(after), time.Minute)
	}
	expect := func(node string, want rollout.LastSlot) {
		t.Helper()
		if diff := cmp.Diff(want, l.Of(driver, types.UID(node))); diff != "" {
			t.Errorf("last slot of %s (-want +got):\n%s", node, diff)
		}
	}
	gives("a", 0)
	l.GivenBack(driver, nil, at(time.Hour), time.Minute)
	gives("b", time.Minute)
	expect("a", rollout.LastSlot{Members: []string{"a"}, End: at(0)})
	gives("c", 61*time.Second)
	expect("a", rollout.LastSlot{Members: []string{"a"}, End: at(0)})
	gives("a", 62*time.Second)
	expect("a", rollout.LastSlot{Members: []string{"a"}, End: at(62 * time.Second)})
	gives("d", 3*time.Minute)
	expect("b", rollout.LastSlot{})
	if got := l.Of(other, "d"); !got.End.IsZero() {
		t.Errorf("another group has the slot %+v", got)
	}
}
