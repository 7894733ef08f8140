package rollout

import "time"

// Window is a maintenance window: it opens on some days at a time of day, and stays open for some time.
type Window struct {
	// Days on which it opens; all when empty.
	Days map[time.Weekday]bool
	// Start is the time of day, as a duration since midnight of the zone.
	Start time.Duration
	// Length is how long it stays open, at most a week.
	Length time.Duration
	// Zone is the time zone of Start, unless a node has its own.
	Zone *time.Location
}

// searchedDays is the number of days before and after today that are searched for a window: more than the
// longest window and the longest gap between two.
const searchedDays = 8

// at reports whether the window is open at a time in a zone, and when that changes: at its next start, or
// at its end, extended by windows that start before it.
func (w *Window) at(now time.Time, zone *time.Location) (open bool, changes time.Time) {
	local := now.In(zone)
	for day := -searchedDays; day <= searchedDays; day++ {
		date := time.Date(local.Year(), local.Month(), local.Day()+day, 0, 0, 0, 0, time.UTC)
		start := w.startOn(date, zone)
		switch {
		case !w.opensOn(date):
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

// WindowTimes says when a window is open, relative to a time.
type WindowTimes struct {
	// Open reports whether it is open.
	Open bool
	// Opens is when it opens next, and Closes when it closes next; both are zero if it never closes.
	Opens, Closes time.Time
}

// TimesAt returns when the window opens and closes next after a time, in a zone.
func (w *Window) TimesAt(now time.Time, zone *time.Location) WindowTimes {
	open, changes := w.at(now, zone)
	again, then := w.at(changes, zone)
	switch {
	case open && again: // otherwise it would be closed at its end
		return WindowTimes{Open: true}
	case open:
		return WindowTimes{Open: true, Opens: then, Closes: changes}
	}
	return WindowTimes{Opens: changes, Closes: then}
}

// startOn returns the start time of the window on a date, given as midnight UTC. A time of day that
// daylight saving skips moves past the gap, by as much as it is after the start of the gap. time.Date
// alone would put it before the gap in zones west of Greenwich, for midnight on the day before.
func (w *Window) startOn(date time.Time, zone *time.Location) time.Time {
	start := time.Date(date.Year(), date.Month(), date.Day(), 0, int(w.Start/time.Minute), 0, 0, zone)
	_, offset := start.Zone()
	clock := start.Add(time.Duration(offset) * time.Second)
	return start.Add(max(0, date.Add(w.Start).Sub(clock)))
}

func (w *Window) opensOn(date time.Time) bool {
	return len(w.Days) == 0 || w.Days[date.Weekday()]
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
