package rollout

import (
	"fmt"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// gate keeps candidates from starting for reasons other than the budget: a pause, a halt or the
// policy.
type gate struct {
	*draft
	// halted is why no more nodes start, "" when the rollout is not halted.
	halted string
	waves  waveProgress
	// ahead is what has to be approved for a node that would go before those that come first, "" for nothing.
	ahead string
}

// isClosed reports whether nothing starts, except that nodes go back in a halt.
func (g *gate) isClosed() bool { return g.stops() || g.halted != "" }

// stops reports whether no node goes back either.
func (g *gate) stops() bool { return g.in.Ending || g.in.Settings.Paused }

// isClosedTo reports whether none of a lane starts: a halt does not keep nodes from going back.
func (g *gate) isClosedTo(l *lane) bool { return g.stops() || g.halted != "" && !l.pinned }

// hold returns why policy keeps the candidates of a lane from starting now. Waves only hold
// healthy nodes: a node that is already unavailable uses up the budget anyway, so a version that
// may repair it goes there first; but under a plan not without a required approval.
func (g *gate) hold(l *lane) (Reason, string) {
	if g.in.Settings.Strategy == daemonset.OTA || l.pinned {
		return "", ""
	}
	switch {
	case l.wave <= g.waves.reached:
	case l.urgency == healthy:
		return g.waves.reason, g.waves.why
	case l.urgency == unavailableAlready:
		if name, why := g.approvalMissing(l.wave); name != "" {
			g.ahead = name
			return ReasonAwaitingApproval, why
		}
	}
	if why, again := g.outsideWindow(l); why != "" {
		g.recheckIn(again)
		return ReasonOutsideWindow, why
	}
	return "", ""
}

// approvalMissing returns which approval a part of the plan in force lacks, or the first of those before it that are not
// reached, and the explanation; "" if none does.
func (g *gate) approvalMissing(part int) (name, why string) {
	for i := g.waves.reached + 1; i <= part && name == "" && g.in.Policy.Plan != ""; i++ {
		name, why = approvalMissing(g.draft, i)
	}
	return name, why
}

// outsideWindow returns why the maintenance window keeps the nodes of a lane from starting now,
// and when to check again; "" when it does not.
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
	if usual := min(g.ledger.Usual, w.Length*3/4); usual > left { // else one slow node shuts the window for good
		return fmt.Sprintf("the maintenance window closes in %s, a node usually takes %s", left.Round(time.Second), usual.Round(time.Second)), left
	}
	return "", 0
}
