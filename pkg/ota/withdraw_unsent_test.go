package ota

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/pkg/ota/records"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// queuedBesideSingle returns an agent without a connection that has an operation queued, and a single request that the operator has.
func queuedBesideSingle(t *testing.T, c *fakeCluster) (b *bench, id string) {
	t.Helper()
	b = newBench(t, c, t.TempDir())
	b.mustUpgrade(t, "enflame-toolkit-x")
	b.sync(t)
	c.set(func() { c.unreachable = errUnreachable })
	return b, call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation().ID
}

// submittedWithdrawn returns how many requests the operator has, by whether they are withdrawn.
func (c *fakeCluster) submittedWithdrawn() map[bool]int {
	counts := map[bool]int{}
	c.set(func() {
		for _, r := range c.nodeUpgrade.Status.Requests {
			counts[r.Withdrawn]++
		}
	})
	return counts
}

var (
	singleIsWithdrawn  = map[bool]int{true: 1}
	nothingIsWithdrawn = map[bool]int{false: 2}
)

// TestKilledAtEveryWriteAnOperationAndASingleRequestAreWithdrawnTogether, by the agent that is back, also if nobody repeats the call.
func TestKilledAtEveryWriteAnOperationAndASingleRequestAreWithdrawnTogether(t *testing.T) {
	rollback := step{"it is taken back", post("/v1/rollback", "", "Idempotency-Key", "tuesday")}
	for _, held := range []bool{false, true} {
		ends := map[string]int{}
		for at, survived := 1, false; !survived && !t.Failed(); at++ {
			c, r := newFleet(), &reaper{}
			r.watch(t, c)
			b, id := queuedBesideSingle(t, c)
			*r = reaper{at: at}
			_, survived = b.survives(rollback)
			*r = reaper{}
			b = newBenchAt(t, c, b.directory, b.clock)
			if held && post("/v1/hold", "")(b) >= 300 {
				t.Errorf("killed at %d, a hold fails", at)
			}
			b.reconnect(t)
			got, o := fmt.Sprint(c.submittedWithdrawn()), call(t, b.handler(), "GET", "/v1/operations/"+id, "").operation()
			ends[got]++
			switch {
			case got == fmt.Sprint(singleIsWithdrawn) && statesOf(o)["enflame-driver-x"] == request.Withdrawn && o.State == request.Waiting: // both
			case got == fmt.Sprint(nothingIsWithdrawn) && o.State == request.Waiting && !held && !survived: // none
			case got == fmt.Sprint(map[bool]int{false: 1}) && o.State == request.Dropped && held && !survived: // none, and the hold drops the operation
			default:
				t.Errorf("killed at %d, held %t, the requests are withdrawn %s, the operation is %+v", at, held, got, o)
			}
		}
		if len(ends) < 2 {
			t.Errorf("held %t, the ends are %v", held, ends)
		}
	}
}

// TestAnOperationAndASingleRequestAreWithdrawnTogetherOnADiskThatFails meanwhile.
func TestAnOperationAndASingleRequestAreWithdrawnTogetherOnADiskThatFails(t *testing.T) {
	for _, tt := range []struct {
		journal string
		status  int
		want    map[bool]int
	}{
		{"requests", 500, nothingIsWithdrawn},
		{"operations", 202, singleIsWithdrawn}, // fails after what was to be withdrawn is recorded
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the agent is started again %t", tt.journal, restarts), func(t *testing.T) {
				c := newFleet()
				b, id := queuedBesideSingle(t, c)
				path, breaks := filepath.Join(b.directory, tt.journal), func() {}
				kind := records.RequestKind.ID
				t.Cleanup(func() { records.RequestKind.ID = kind })
				records.RequestKind.ID = func(r request.Request) string { breaks(); return kind(r) }
				b = newBenchAt(t, c, b.directory, b.clock)
				breaks = func() { _ = os.Rename(path, path+"-away") }
				call(t, b.handler(), "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(tt.status)
				breaks = func() {}
				if err := os.Rename(path+"-away", path); err != nil {
					t.Fatal(err)
				}
				_ = b.syncOnce(t.Context()) // without a connection
				if restarts {
					b = newBenchAt(t, c, b.directory, b.clock)
				}
				b.reconnect(t)
				if diff := cmp.Diff(tt.want, c.submittedWithdrawn()); diff != "" {
					t.Errorf("requests, by whether they are withdrawn (-want +got):\n%s", diff)
				}
				call(t, b.handler(), "POST", "/v1/rollback", "", "Idempotency-Key", "k").wants(202)
				if got := c.submittedWithdrawn(); got[false] > 0 {
					t.Errorf("after the repeated call: %v, %+v", got, call(t, b.handler(), "GET", "/v1/operations/"+id, "").operation())
				}
			})
		}
	}
}
