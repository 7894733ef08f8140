package hosttasks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/hosttasks/hostapi"
	"github.com/topsops/gcu-operator/pkg/nodeapi"
)

// TestTheKeepAlivesOfTenThousandAgentsAreSpread simulates the clients of a fleet whose agents
// start at the same moment: the times of the first report of each, and of its renewals over
// ten idle minutes. Periods are drawn as by wait.Jitter.
func TestTheKeepAlivesOfTenThousandAgentsAreSpread(t *testing.T) {
	const agents, minutes, spread = 10_000, 10, 30 * time.Second
	rng := rand.New(rand.NewPCG(1, 2))
	writes := make([]int, minutes*60)
	for i := range agents {
		at := nodeapi.FirstContact(fmt.Sprintf("node-%05d", i), spread)
		for at < minutes*time.Minute {
			writes[int(at/time.Second)]++
			at += hostapi.ReportPeriod + time.Duration(rng.Float64()*jitter*float64(hostapi.ReportPeriod))
		}
	}
	first, steady := writes[:int(spread/time.Second)], writes[5*60:]
	total := 0
	for _, n := range steady {
		total += n
	}
	mean := total / len(steady)
	t.Logf("first contact: %d to %d agents a second over %s; from the fifth minute: %d to %d writes a second, %d on average",
		slices.Min(first), slices.Max(first), spread, slices.Min(steady), slices.Max(steady), mean)
	if even := agents / len(first); slices.Max(first) > even*5/4 || slices.Min(first) < even*3/4 {
		t.Errorf("first contact: %d to %d agents a second, an even spread has %d", slices.Min(first), slices.Max(first), even)
	}
	if slices.Max(steady) > mean*2 {
		t.Errorf("keep-alive: up to %d writes a second, %d on average", slices.Max(steady), mean)
	}
	if most := agents / int(hostapi.ReportPeriod/time.Second); mean > most {
		t.Errorf("keep-alive: %d writes a second on average, at most %d were wanted", mean, most)
	}
}
