package notifier

import (
	"slices"
	"sync"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/notification"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// Delays of an attempt after one that failed, doubled each time.
const (
	minDelay = time.Second
	maxDelay = 5 * time.Minute
)

// remembered is how many delivered notifications are known by their ids. Only those count whose mark is not
// removed from the stored record yet.
const remembered = 1000

// outbox has what is to be delivered. It holds no more than the records do: a notification that its record has
// no longer is dropped.
type outbox struct {
	mu        sync.Mutex
	groups    map[observed.Group][]*letter
	delivered []string
	// wake has an element when something is new.
	wake chan struct{}
}

// letter is a notification with its attempts.
type letter struct {
	notification.Message
	group observed.Group
	due   time.Time
	delay time.Duration
}

func newOutbox() *outbox {
	return &outbox{groups: map[observed.Group][]*letter{}, wake: make(chan struct{}, 1)}
}

// offer replaces what is to be delivered of a group. Attempts at what was offered before go on.
func (o *outbox) offer(g observed.Group, messages []notification.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.groups[g]
	var list []*letter
	for _, m := range messages {
		if slices.Contains(o.delivered, m.ID) {
			continue
		}
		i := slices.IndexFunc(before, func(l *letter) bool { return l.ID == m.ID })
		if i >= 0 {
			list = append(list, before[i])
			continue
		}
		list = append(list, &letter{Message: m, group: g})
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

// next returns what is due, the oldest first, nil if nothing is; then also when something will be, zero for never.
func (o *outbox) next(now time.Time) (due *letter, at time.Time) {
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

// settle stores how an attempt ended.
func (o *outbox) settle(l *letter, delivered bool, now time.Time) {
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
	o.groups[l.group] = slices.DeleteFunc(o.groups[l.group], func(other *letter) bool { return other == l })
	if len(o.groups[l.group]) == 0 {
		delete(o.groups, l.group)
	}
}

// waiting returns how many are to be delivered.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, list := range o.groups {
		n += len(list)
	}
	return n
}
