package ota

import (
	"slices"
	"sync"

	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// latest holds what may be read without the lock. It is safe for concurrent use.
type latest struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	state   state
	changed chan struct{}
}

// state is immutable; a change replaces it.
type state struct {
	operations []request.Operation
	hold       *topsv1.NodeHold
	// nodeUpgrade as last seen, or nil.
	nodeUpgrade *topsv1.NodeUpgrade
}

// tasks returns the answers of the operator.
func (s state) tasks() []topsv1.UpgradeTask {
	if s.nodeUpgrade == nil {
		return nil
	}
	return s.nodeUpgrade.Status.Tasks
}

func newLatest(c clock.PassiveClock) *latest {
	return &latest{clock: c, changed: make(chan struct{})}
}

// read returns the state, and a channel that is closed when it changes.
func (l *latest) read() (state, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

func (l *latest) change(change func(*state)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.state)
	close(l.changed)
	l.changed = make(chan struct{})
}

// responses returns those for all operations, oldest first.
func (l *latest) responses(s state) []response.Operation {
	all := make([]response.Operation, 0, len(s.operations))
	for _, o := range s.operations {
		all = append(all, response.OperationOf(o.Follow(s.tasks(), request.Seconds(l.clock.Now())), s.nodeUpgrade))
	}
	return all
}

// Operations returns the operations of this node, newest first.
func (l *latest) Operations() response.Operations {
	s, _ := l.read()
	all := l.responses(s)
	slices.Reverse(all)
	return response.Operations{Operations: all}
}

// Operation returns one operation, and a channel that is closed when it may have changed.
// The error is a *Refusal.
func (l *latest) Operation(id string) (response.Operation, <-chan struct{}, error) {
	s, changed := l.read()
	for _, o := range l.responses(s) {
		if o.ID == id {
			return o, changed, nil
		}
	}
	return response.Operation{}, nil, request.Refuse(request.ReasonOperationMissing, "There is no operation %.80q on this node, or it is no longer kept: GET /v1/operations lists the last %d, node-agent ota watch follows the newest.", id, request.KeptOperations)
}
