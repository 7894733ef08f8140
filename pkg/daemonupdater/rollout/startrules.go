package rollout

import (
	"fmt"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// startRules keep candidates from starting for reasons other than the budget: a pause, a halt, global tasks that
// come first, or the policy.
type startRules struct {
	*draft
	// halted says why the rollout is halted, "" if it is not.
	halted string
	waves  waveProgress
	// unapproved is the approval that an unavailable node of a later batch lacks, which would otherwise start first;
	// "" for none.
	unapproved string
}

// forbidsUpgrades reports whether no node is upgraded. In a halt, nodes may still go back.
func (r *startRules) forbidsUpgrades() bool { return r.forbidsAll() || r.halted != "" }

// forbidsAll reports whether no node starts, not even to go back: that may also bring other components to the version of a
// plan whose global tasks come first.
func (r *startRules) forbidsAll() bool {
	return r.in.Ending || r.in.Settings.Paused || r.in.Beforehand != nil
}

// forbids reports whether no node of a lane starts. A halt does not keep nodes from going back.
func (r *startRules) forbids(l *lane) bool { return r.forbidsAll() || r.halted != "" && !l.goingBack }

// whyHeld returns why the policy keeps the candidates of a lane from starting now, "" if it does not.
// Waves only delay healthy nodes: a node that is already unavailable uses up the budget anyway, so a
// version that may repair it goes there first. Under a plan, it needs the approvals of its batch and
// of those before it.
func (r *startRules) whyHeld(l *lane) (Reason, string) {
	if r.in.Settings.Strategy == daemonset.OTA || l.goingBack {
		return "", ""
	}
	switch {
	case l.wave <= r.waves.reached:
	case l.urgency == healthy:
		return r.waves.reason, r.waves.why
	case l.urgency == unavailableAlready:
		if name, why := r.approvalMissing(l.wave); name != "" {
			r.unapproved = name
			return ReasonAwaitingApproval, why
		}
	}
	if why, again := r.outsideWindow(l); why != "" {
		r.recheckIn(again)
		return ReasonOutsideWindow, why
	}
	return "", ""
}

// approvalMissing returns the first approval that is missing for a part of the plan in force, or for a part before it
// that is not reached, and the explanation; "" if none is.
func (r *startRules) approvalMissing(part int) (name, why string) {
	for i := r.waves.reached + 1; i <= part && name == "" && r.in.Policy.Plan != ""; i++ {
		name, why = approvalMissing(r.draft, i)
	}
	return name, why
}

// outsideWindow returns why the maintenance window keeps the nodes of a lane from starting now,
// and when to check again; "" when it does not.
func (r *startRules) outsideWindow(l *lane) (why string, again time.Duration) {
	w := r.in.Policy.Window
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
	open, changes := w.at(r.in.Now, zone)
	left := changes.Sub(r.in.Now)
	if !open {
		return fmt.Sprintf("outside of the maintenance window, which opens at %s", changes.Format("Mon 15:04 MST")), left
	}
	if usual := min(r.ledger.Usual, w.Length*3/4); usual > left { // capped, or one slow node would close the window for good
		return fmt.Sprintf("the maintenance window closes in %s, a node usually takes %s", left.Round(time.Second), usual.Round(time.Second)), left
	}
	return "", 0
}
