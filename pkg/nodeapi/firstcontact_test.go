package nodeapi

import (
	"fmt"
	"testing"
	"time"
)

// TestTenThousandAgentsThatStartAtOnceSpreadTheirFirstContact simulates the clients of a
// fleet: the requests of all agents in their first minute, per second. Each agent reads its
// Node and NodeUpgrade, starts its watch (a list and a watch), applies its status, reads
// its pods, and reports its host (a read and an apply).
func TestTenThousandAgentsThatStartAtOnceSpreadTheirFirstContact(t *testing.T) {
	const agents, requests, spread = 10_000, 8, 30 * time.Second
	for _, names := range []string{"node-%05d", "edge-%d.example.com", "10-0-%d", "%d"} {
		perSecond := map[int]int{}
		for i := range agents {
			at := FirstContact(fmt.Sprintf(names, i), spread)
			if at < 0 || at >= spread {
				t.Fatalf("agent %d waits %s", i, at)
			}
			perSecond[int(at/time.Second)] += requests
		}
		most := 0
		for _, n := range perSecond {
			most = max(most, n)
		}
		const even = agents * requests / int(spread/time.Second)
		if len(perSecond) != int(spread/time.Second) || most > even*5/4 {
			t.Errorf("%s: at most %d requests in one second, over %d seconds; an even spread has %d", names, most, len(perSecond), even)
		}
	}
}

func TestAnAgentWaitsAsLongEveryTime(t *testing.T) {
	if a, b := FirstContact("node-a", time.Minute), FirstContact("node-a", time.Minute); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if d := FirstContact("node-a", 0); d != 0 {
		t.Errorf("without a spread it waits %s", d)
	}
}
