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
	// Reads is for GET but of plans and their results. Writes is for all other methods, for these, and for requests whose token the API server is asked about.
	Reads, Writes rate.Limit
}

// DefaultRates suffice for people, scripts and dashboards, and keep one caller from starving
// the others.
var DefaultRates = Rates{Reads: 600, Writes: 40}

const (
	// callers is how many callers are remembered; the least recent is dropped.
	callers   = 4096
	callerTTL = 10 * time.Minute
	// unauthenticatedFactor times the rates of one caller are the rates of all unauthenticated callers together: an
	// attacker may have any number of addresses.
	unauthenticatedFactor = 4
)

// limits limits each caller. It is safe for concurrent use.
type limits struct {
	mutex sync.Mutex
	rates Rates
	clock clock.PassiveClock
	known *cache.LRUExpireCache
	// all limits all callers together; nil means no limit.
	all *pace
}

// pace is the limiters of one caller.
type pace struct{ reads, writes *rate.Limiter }

func newLimits(rates Rates, clk clock.PassiveClock) *limits {
	return &limits{rates: rates, clock: clk, known: cache.NewLRUExpireCacheWithClock(callers, clk)}
}

// together limits all callers together to n times the rates of one.
func (l *limits) together(n rate.Limit) *limits {
	l.all = &pace{limiter(n * l.rates.Reads), limiter(n * l.rates.Writes)}
	return l
}

// allow reports whether a caller may send another request now, and counts it.
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
	now := l.clock.Now()
	return p.allow(reads, now) && (l.all == nil || l.all.allow(reads, now))
}

func (p *pace) allow(reads bool, now time.Time) bool {
	if reads {
		return p.reads.AllowN(now, 1)
	}
	return p.writes.AllowN(now, 1)
}

func limiter(limit rate.Limit) *rate.Limiter { return rate.NewLimiter(limit, max(1, int(2*limit))) }
