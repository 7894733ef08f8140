package observed

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

var weekdays = map[topsv1.Weekday]time.Weekday{
	"Mon": time.Monday, "Tue": time.Tuesday, "Wed": time.Wednesday, "Thu": time.Thursday,
	"Fri": time.Friday, "Sat": time.Saturday, "Sun": time.Sunday,
}

func windowOf(spec *topsv1.MaintenanceWindow) (*rollout.Window, error) {
	if spec == nil {
		return nil, nil
	}
	at, err := time.Parse("15:04", spec.Start)
	if err != nil {
		return nil, fmt.Errorf("start of the window: %w", err)
	}
	zone, err := zoneOf(cmp.Or(spec.TimeZone, "UTC"))
	if err != nil {
		return nil, err
	}
	w := &rollout.Window{
		Start:  time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute,
		Length: time.Duration(spec.DurationMinutes) * time.Minute,
		Zone:   zone,
	}
	for _, d := range spec.Days {
		if w.Days == nil {
			w.Days = map[time.Weekday]bool{}
		}
		w.Days[weekdays[d]] = true
	}
	return w, nil
}

// zoneOf loads a time zone by its IANA name. It rejects "" and "Local", the zone of the machine
// that the manager runs on.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is not an IANA time zone, such as Asia/Shanghai", name)
	}
	return zone, nil
}

// Zones caches time zones by name for one pass: many nodes name the same few.
type Zones map[string]zone

type zone struct {
	location *time.Location
	err      error
}

func (z Zones) of(name string) (*time.Location, error) {
	known, ok := z[name]
	if !ok {
		known.location, known.err = zoneOf(name)
		z[name] = known
	}
	return known.location, known.err
}

// ofNode returns the zone that a node's labels name for a window, nil if they name none, and what is wrong with the
// label, "" for nothing.
func (z Zones) ofNode(window *topsv1.MaintenanceWindow, labels map[string]string) (*time.Location, string) {
	if window == nil || window.TimeZoneNodeLabel == "" {
		return nil, ""
	}
	value, ok := labels[window.TimeZoneNodeLabel]
	if !ok {
		return nil, ""
	}
	location, err := z.of(strings.ReplaceAll(value, ".", "/"))
	if err != nil {
		return nil, fmt.Sprintf("node label %s: %v", window.TimeZoneNodeLabel, err)
	}
	return location, ""
}
