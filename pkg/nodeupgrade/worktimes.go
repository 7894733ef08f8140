package nodeupgrade

import (
	"sync"
	"time"

	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// workTimes records since when this process has worked on the operations of nodes: neither the time before that, nor
// the time without an API server, counts against a deadline.
type workTimes struct {
	mu    sync.Mutex
	nodes map[string]workTime
}

// workTime is when a node was first observed, and when the last pass over it ended.
type workTime struct{ first, last time.Time }

// since returns since when a node, which is observed now, has been observed without a longer break. The time is
// that of the wall clock: it is compared with recorded times, so a clock that jumps is a break as well.
func (t *workTimes) since(node string, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.at(node, now)
	t.nodes[node] = known
	return known.first
}

// expected returns what since will return if the node can be observed.
func (t *workTimes) expected(node string, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at(node, now).first
}

func (t *workTimes) at(node string, now time.Time) workTime {
	now = now.Round(0) // drops the reading of the monotonic clock, by which nothing jumps
	known, ok := t.nodes[node]
	if !ok || now.Sub(known.last).Abs() > operation.LongestBreak || known.first.After(now) {
		known.first = now
	}
	known.last = now
	return known
}

// worked adds the time that a pass took since the node was observed: it is no break. A jump of the wall clock during
// the pass is not in it, and so is a break.
func (t *workTimes) worked(node string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.nodes[node]; ok {
		known.last = known.last.Add(took)
		t.nodes[node] = known
	}
}

// end forgets a node without an operation.
func (t *workTimes) end(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nodes, node)
}
