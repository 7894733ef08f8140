package rollout

import (
	"fmt"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// gate is what keeps candidates from being started, whatever room there is: a pause, a halt
// and the policy.
type gate struct {
	*draft
	// halted is why no more nodes are started, "" when nothing is halted.
	halted string
	waves  waveProgress
}

// isClosed reports whether nothing is started at all.
func (g *gate) isClosed() bool { return g.in.Settings.Paused || g.halted != "" }

// hold says why policy keeps the candidates of a lane from being started now.
// Waves are for healthy nodes: one that is unavailable already uses up the budget
// of them all, so a version that may mend it goes there first.
func (g *gate) hold(l *lane) (Reason, string) {
	if g.in.Settings.Strategy == daemonset.OTA {
		return "", ""
	}
	if l.urgency == healthy && l.wave > g.waves.reached {
		return g.waves.reason, g.waves.why
	}
	if why, again := g.outsideWindow(l); why != "" {
		g.recheckIn(again)
		return ReasonOutsideWindow, why
	}
	return "", ""
}

// outsideWindow says why no node of a lane may be started now for the sake of the window,
// and when to look again; "" when it may.
func (g *gate) outsideWindow(l *lane) (why string, again time.Duration) {
	w := g.in.Policy.Window
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
	open, changes := w.at(g.in.Now, zone)
	left := changes.Sub(g.in.Now)
	if !open {
		return fmt.Sprintf("outside of the maintenance window, which opens at %s", changes.Format("Mon 15:04 MST")), left
	}
	if usual := g.ledger.Usual; usual > left {
		return fmt.Sprintf("the maintenance window closes in %s, a node usually takes %s", left.Round(time.Second), usual.Round(time.Second)), left
	}
	return "", 0
}
