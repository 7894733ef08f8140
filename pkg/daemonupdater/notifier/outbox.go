package notifier

import (
	"slices"
	"sync"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/notification"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// Delays after a failed attempt, doubled each time.
const (
	minDelay = time.Second
	maxDelay = 5 * time.Minute
)

// remembered is how many IDs of delivered notifications are kept. They are needed only until the marks are removed from
// the stored record.
const remembered = 1000

// outbox has the notifications to deliver. It is bounded by the records: a notification whose record no longer has it is
// dropped.
type outbox struct {
	mu        sync.Mutex
	groups    map[observed.Group][]*delivery
	delivered []string
	// wake has an element after a new notification was offered.
	wake chan struct{}
}

// delivery is a notification with its attempts.
type delivery struct {
	notification.Message
	group observed.Group
	due   time.Time
	delay time.Duration
}

func newOutbox() *outbox {
	return &outbox{groups: map[observed.Group][]*delivery{}, wake: make(chan struct{}, 1)}
}

// offer replaces the notifications of a group. Those that were offered before keep their attempts.
func (o *outbox) offer(g observed.Group, messages []notification.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.groups[g]
	var list []*delivery
	for _, m := range messages {
		if slices.Contains(o.delivered, m.ID) {
			continue
		}
		i := slices.IndexFunc(before, func(l *delivery) bool { return l.ID == m.ID })
		if i >= 0 {
			list = append(list, before[i])
			continue
		}
		list = append(list, &delivery{Message: m, group: g})
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
	o.groups[g] = list
	if len(list) == 0 {
		delete(o.groups, g)
	}
}

// isDelivered reports whether a notification was delivered.
func (o *outbox) isDelivered(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.delivered, id)
}

// next returns the oldest notification that is due, nil if none is; then at is when the next will be due, zero for never.
func (o *outbox) next(now time.Time) (due *delivery, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, list := range o.groups {
		for _, l := range list {
			switch {
			case l.due.After(now):
				if at.IsZero() || l.due.Before(at) {
					at = l.due
				}
			case due == nil || l.Time.Before(due.Time) || l.Time.Equal(due.Time) && l.ID < due.ID:
				due = l
			}
		}
	}
	return due, at
}

// recordAttempt records the result of an attempt.
func (o *outbox) recordAttempt(l *delivery, delivered bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !delivered {
		l.delay = min(max(2*l.delay, minDelay), maxDelay)
		l.due = now.Add(l.delay)
		return
	}
	if o.delivered = append(o.delivered, l.ID); len(o.delivered) > remembered {
		o.delivered = slices.Delete(o.delivered, 0, len(o.delivered)-remembered)
	}
	o.groups[l.group] = slices.DeleteFunc(o.groups[l.group], func(other *delivery) bool { return other == l })
	if len(o.groups[l.group]) == 0 {
		delete(o.groups, l.group)
	}
}

// waiting returns how many notifications are not delivered yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, list := range o.groups {
		n += len(list)
	}
	return n
}
