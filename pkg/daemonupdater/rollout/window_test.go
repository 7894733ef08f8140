package rollout

import (
	"testing"
	"time"
)

// windowZones have changes of their offset at midnight, of half an hour, and none.
var windowZones = []string{"UTC", "Asia/Shanghai", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata", "Pacific/Kiritimati"}

// FuzzWindow checks that a window is open after its starts for its length and at no other time, and
// that it changes when it says.
func FuzzWindow(f *testing.F) {
	f.Add(uint8(0), uint16(23*60+30), uint16(60), uint8(0), int64(1893456000))
	f.Add(uint8(1<<time.Sunday), uint16(150), uint16(45), uint8(2), int64(1805007600))    // 2027-03-14, skipped at 02:30
	f.Add(uint8(1<<time.Saturday), uint16(0), uint16(10079), uint8(3), int64(1820000000)) // nearly always
	f.Add(uint8(0), uint16(0), uint16(1439), uint8(1), int64(1893455999))                 // always
	f.Add(uint8(1<<time.Monday|1<<time.Friday), uint16(60), uint16(2880), uint8(4), int64(1806000000))
	f.Fuzz(func(t *testing.T, days uint8, start, length uint16, zoneIndex uint8, unix int64) {
		zone, err := time.LoadLocation(windowZones[int(zoneIndex)%len(windowZones)])
		if err != nil {
			t.Fatal(err)
		}
		w := &Window{Start: time.Duration(start%1440) * time.Minute, Length: time.Duration(length%10080+1) * time.Minute, Zone: zone}
		for day := time.Sunday; day <= time.Saturday; day++ {
			if days&(1<<day) != 0 {
				if w.Days == nil {
					w.Days = map[time.Weekday]bool{}
				}
				w.Days[day] = true
			}
		}
		const from, span = 1577836800, 80 * 365 * 24 * 3600 // from 2020
		now := time.Unix(from+(unix%span+span)%span, 0)
		open, changes := w.at(now, zone)
		if want := w.opened(now, zone); open != want {
			t.Fatalf("%v is open: %t, want %t", now.In(zone), open, want)
		}
		if !changes.After(now) {
			t.Fatalf("at %v it changes at %v", now.In(zone), changes.In(zone))
		}
		for i := range time.Duration(20) {
			if at := now.Add(changes.Sub(now) * i / 20); w.opened(at, zone) != open {
				t.Errorf("it changes before %v, at %v", changes.In(zone), at.In(zone))
			}
		}
		if after := w.opened(changes, zone); after == open && changes.Sub(now) < 6*24*time.Hour {
			t.Errorf("at %v it does not change from open: %t", changes.In(zone), open)
		}
	})
}

// opened searches the minutes of the days before a time for the start of a window that is still open:
// the clock shows the start or, just after a gap, has passed over it.
func (w *Window) opened(now time.Time, zone *time.Location) bool {
	local := now.In(zone)
	for ago := range 9 {
		noon := time.Date(local.Year(), local.Month(), local.Day()-ago, 12, 0, 0, 0, zone)
		if len(w.Days) > 0 && !w.Days[noon.Weekday()] {
			continue
		}
		start := noon.Add(-noonClock(noon, w.Start))
		if !start.After(now) && now.Before(start.Add(w.Length)) {
			return true
		}
	}
	return false
}

// noonClock returns how long before noon of a day its clock shows a time of day, by the offset that
// holds then: where none shows it, the one before the gap.
func noonClock(noon time.Time, clock time.Duration) time.Duration {
	_, after := noon.Zone()
	_, before := noon.Add(-24 * time.Hour).Zone()
	midnight := time.Date(noon.Year(), noon.Month(), noon.Day(), 0, 0, 0, 0, time.UTC)
	shown := func(offset int) (time.Time, bool) {
		at := midnight.Add(clock - time.Duration(offset)*time.Second)
		_, is := at.In(noon.Location()).Zone()
		return at, is == offset
	}
	at, ok := shown(before)
	if late, is := shown(after); !ok && is {
		at = late
	}
	return noon.Sub(at)
}
