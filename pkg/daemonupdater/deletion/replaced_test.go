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

func TestWhatWasReplacedIsRememberedForTheGivenTime(t *testing.T) {
	var all AllAttempts
	driver, other := observed.Group{Kind: "DaemonSet", Name: "driver"}, observed.Group{Kind: "DaemonSet", Name: "other"}
	at := func(after time.Duration) time.Time { return fixture.Epoch.Add(after) }
	ends := func(node string, after time.Duration, members ...string) {
		all.Replaced.Note(driver, []rollout.Slot{{Node: node, UID: types.UID(node), Members: members}}, at(after), time.Minute)
	}
	expect := func(node string, want map[string]time.Time) {
		t.Helper()
		n := rollout.Node{Name: node, UID: types.UID(node)}
		all.Show(driver, &n)
		if diff := cmp.Diff(want, n.Replaced); diff != "" {
			t.Errorf("replaced on %s (-want +got):\n%s", node, diff)
		}
	}
	ends("a", 0, "x")
	first := all.Replaced.Of(driver, "a")
	all.Replaced.Note(driver, nil, at(time.Hour), time.Minute)
	ends("b", time.Minute, "x")
	ends("a", time.Minute, "y", "z")
	expect("a", map[string]time.Time{"x": at(0), "y": at(time.Minute), "z": at(time.Minute)})
	if len(first) != 1 {
		t.Errorf("what a decision has read has become %v", first)
	}
	all.Replaced.Note(other, []rollout.Slot{{UID: "o", Members: []string{"x"}}}, at(61*time.Second), time.Second)
	all.Replaced.Note(other, []rollout.Slot{{UID: "p", Members: []string{"x"}}}, at(63*time.Second), time.Second)
	all.Replaced.Note(other, []rollout.Slot{{UID: "q", Members: []string{"x"}}}, at(65*time.Second), time.Second)
	expect("b", map[string]time.Time{"x": at(time.Minute)})
	ends("c", 61*time.Second, "x")
	expect("b", map[string]time.Time{"x": at(time.Minute)})
	ends("d", 3*time.Minute, "x")
	expect("b", nil)
	expect("c", map[string]time.Time{"x": at(61 * time.Second)})
	ends("e", 2*time.Minute, "x") // the clock was set back
	expect("c", nil)
	expect("e", map[string]time.Time{"x": at(2 * time.Minute)})
	if got := all.Replaced.Of(other, "e"); got != nil {
		t.Errorf("another group has replaced %v", got)
	}
	all.Forget(driver)
	expect("e", nil)
}
