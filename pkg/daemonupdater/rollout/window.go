package rollout

import (
	"fmt"
	"time"
)

// Window is a maintenance window: it opens on some days at a time of day and
// stays open for a while.
type Window struct {
	// Days on which it opens; all when empty.
	Days map[time.Weekday]bool
	// Start is the time of day, as a duration since midnight of the zone.
	Start time.Duration
	// Length is how long it stays open, at most a week.
	Length time.Duration
	// Zone in which Start is meant, unless a node has its own.
	Zone *time.Location
}

// lookAround is how many days around today a window is looked for: more than
// the longest window and the longest pause between two.
const lookAround = 8

// at reports whether the window is open at a moment in a zone, and when that
// changes: its end, joined with windows that begin before it, or its next start.
func (w *Window) at(now time.Time, zone *time.Location) (open bool, changes time.Time) {
	local := now.In(zone)
	for day := -lookAround; day <= lookAround; day++ {
		start := w.startOn(local, day, zone)
		switch {
		case !w.opensOn(start):
		case open && !start.After(changes):
			changes = later(changes, start.Add(w.Length))
		case open:
			return true, changes
		case start.After(now):
			return false, start
		case start.Add(w.Length).After(now):
			open, changes = true, start.Add(w.Length)
		}
	}
	return open, changes
}

// startOn is the moment of the window's time of day, some days from a date. A
// time of day that daylight saving skips is the moment just after the gap.
func (w *Window) startOn(local time.Time, day int, zone *time.Location) time.Time {
	minutes := int(w.Start / time.Minute)
	return time.Date(local.Year(), local.Month(), local.Day()+day, minutes/60, minutes%60, 0, 0, zone)
}

func (w *Window) opensOn(start time.Time) bool {
	return len(w.Days) == 0 || w.Days[start.Weekday()]
}

// shut says why no node of a lane may be started now for the sake of the window,
// and when to look again; "" when it may.
func (p *planner) shut(l *lane) (why string, again time.Duration) {
	w := p.in.Policy.Window
	if w == nil {
		return "", 0
	}
	if l.zoneError != "" {
		return l.zoneError, 0
	}
	zone := l.timeZone
	if zone == nil {
		zone = w.Zone
	}
	open, changes := w.at(p.in.Now, zone)
	left := changes.Sub(p.in.Now)
	if !open {
		return fmt.Sprintf("outside of the maintenance window, which opens at %s", changes.Format("Mon 15:04 MST")), left
	}
	if usual := p.usual; usual > left {
		return fmt.Sprintf("the maintenance window closes in %s, a node usually takes %s", left.Round(time.Second), usual.Round(time.Second)), left
	}
	return "", 0
}
