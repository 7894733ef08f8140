package ota

import (
	"slices"
	"sync"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// board shows what everybody may read without waiting for a turn. Who posts and who
// reads may be many goroutines.
type board struct {
	mu      sync.Mutex
	posted  posted
	changed chan struct{}
}

// posted is never changed, but replaced.
type posted struct {
	records []record
	hold    *topsv1.NodeHold
	// nodeUpgrade as last seen; nil for none.
	nodeUpgrade *topsv1.NodeUpgrade
}

func newBoard() *board { return &board{changed: make(chan struct{})} }

// read returns what is posted, and a channel that is closed when that changes.
func (b *board) read() (posted, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.posted, b.changed
}

func (b *board) post(change func(*posted)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.posted)
	close(b.changed)
	b.changed = make(chan struct{})
}

// publish posts what the book holds, and the NodeUpgrade unless it is nil.
func (in *Inbox) publish(nodeUpgrade *topsv1.NodeUpgrade) {
	in.board.post(func(p *posted) {
		p.records, p.hold = slices.Clone(in.book.records), in.book.hold
		if nodeUpgrade != nil {
			p.nodeUpgrade = nodeUpgrade
		}
	})
}

// answers words all operations, oldest first.
func (in *Inbox) answers(p posted) []Operation {
	var tasks []topsv1.UpgradeTask
	if p.nodeUpgrade != nil {
		tasks = p.nodeUpgrade.Status.Tasks
	}
	all := make([]Operation, 0, len(p.records))
	for _, r := range p.records {
		all = append(all, r.follow(tasks, seconds(in.clock.Now())).answer(p.nodeUpgrade))
	}
	return all
}

// Operations returns the operations of this node, the newest first.
func (in *Inbox) Operations() Operations {
	p, _ := in.board.read()
	all := in.answers(p)
	slices.Reverse(all)
	return Operations{Operations: all}
}

// Operation returns one operation, and a channel that is closed when there may be news
// of it. The error is a *Refusal.
func (in *Inbox) Operation(id string) (Operation, <-chan struct{}, error) {
	p, changed := in.board.read()
	for _, o := range in.answers(p) {
		if o.ID == id {
			return o, changed, nil
		}
	}
	return Operation{}, nil, refuse(ReasonOperationMissing, "There is no operation %.80q on this node, or not any more: GET /v1/operations lists the last %d, node-agent ota watch follows the newest.", id, keptOperations)
}
