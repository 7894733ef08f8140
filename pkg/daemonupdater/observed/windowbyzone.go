package observed

import (
	"maps"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// WindowByZone is when the maintenance window of a policy is open for some nodes.
type WindowByZone struct {
	rollout.WindowTimes
	// Zone is the time zone of the window for these nodes; nil if the one that they name is invalid, as Problem says: then
	// they are not started.
	Zone    *time.Location
	Problem string
	// Nodes are sorted.
	Nodes []string
}

// WindowsByZone returns when, from now on, the window of a policy is open for nodes: one entry per time zone, sorted by name;
// nil without a window. labels are the labels of the nodes, by name. The error is that of CheckPolicy.
func WindowsByZone(spec *topsv1.UpgradePolicySpec, labels map[string]map[string]string, now time.Time) ([]WindowByZone, error) {
	p, err := policyOf(spec)
	if err != nil || p.Window == nil {
		return nil, err
	}
	found, known := map[string]*WindowByZone{}, Zones{}
	if spec.Window.TimeZoneNodeLabel == "" {
		found[p.Window.Zone.String()] = &WindowByZone{Zone: p.Window.Zone}
	}
	for name, of := range labels {
		zone, problem := known.ofNode(spec.Window, of)
		if zone == nil && problem == "" {
			zone = p.Window.Zone
		}
		key := problem
		if zone != nil {
			key = zone.String()
		}
		if found[key] == nil {
			found[key] = &WindowByZone{Zone: zone, Problem: problem}
		}
		found[key].Nodes = append(found[key].Nodes, name)
	}
	var windows []WindowByZone
	for _, key := range slices.Sorted(maps.Keys(found)) {
		o := found[key]
		slices.Sort(o.Nodes)
		if o.Zone != nil {
			o.WindowTimes = p.Window.TimesAt(now, o.Zone)
		}
		windows = append(windows, *o)
	}
	return windows, nil
}
