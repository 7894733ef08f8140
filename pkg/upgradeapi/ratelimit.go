package upgradeapi

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// Rates are requests per second of one caller; a burst is twice as many.
type Rates struct {
	// Reads is for GET. Writes is for everything else, and for requests whose
	// token has to be asked about first.
	Reads, Writes rate.Limit
}

// DefaultRates let a person, a script and a dashboard work, and keep one of
// them from taking the API server away from the others.
var DefaultRates = Rates{Reads: 600, Writes: 40}

const (
	// callers bounds the memory of who called; the one longest silent is forgotten.
	callers   = 4096
	callerTTL = 10 * time.Minute
)

// limits bounds each caller by itself. It is safe for concurrent use.
type limits struct {
	mutex sync.Mutex
	rates Rates
	clock clock.PassiveClock
	known *cache.LRUExpireCache
}

// pace is what one caller has left.
type pace struct{ reads, writes *rate.Limiter }

func newLimits(rates Rates, clk clock.PassiveClock) *limits {
	return &limits{rates: rates, clock: clk, known: cache.NewLRUExpireCacheWithClock(callers, clk)}
}

// allow reports whether a caller may send one more request now, and counts it.
func (l *limits) allow(caller string, reads bool) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var p *pace
	if known, ok := l.known.Get(caller); ok {
		p = known.(*pace)
	} else {
		p = &pace{limiter(l.rates.Reads), limiter(l.rates.Writes)}
	}
	l.known.Add(caller, p, callerTTL)
	if reads {
		return p.reads.AllowN(l.clock.Now(), 1)
	}
	return p.writes.AllowN(l.clock.Now(), 1)
}

func limiter(limit rate.Limit) *rate.Limiter { return rate.NewLimiter(limit, max(1, int(2*limit))) }
