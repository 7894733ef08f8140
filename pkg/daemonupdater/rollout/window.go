package rollout

import "time"

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

// searchedDays is how many days before and after today are searched for a window: more than the
// longest window and the longest gap between two.
const searchedDays = 8

// at reports whether the window is open at a time in a zone, and when that changes: at its end,
// including windows that begin before it, or at its next start.
func (w *Window) at(now time.Time, zone *time.Location) (open bool, changes time.Time) {
	local := now.In(zone)
	for day := -searchedDays; day <= searchedDays; day++ {
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

// startOn returns the start time of the window, the given number of days from a date. A time of
// day that daylight saving skips becomes the moment just after the gap.
func (w *Window) startOn(local time.Time, day int, zone *time.Location) time.Time {
	minutes := int(w.Start / time.Minute)
	return time.Date(local.Year(), local.Month(), local.Day()+day, minutes/60, minutes%60, 0, 0, zone)
}

func (w *Window) opensOn(start time.Time) bool {
	return len(w.Days) == 0 || w.Days[start.Weekday()]
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
