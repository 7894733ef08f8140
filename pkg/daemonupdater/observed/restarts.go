package observed

import (
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// A gr without a strategy is not upgraded. But if it has a toolkit, the container runtimes that
// have to be restarted for it are (rollout.RestartsOnly): otherwise its first deployment would end
// with unusable cards. Its DaemonRollout exists only while there is something to restart.

// IsReleased reports whether the control over a group ends: it has no strategy, and no runtime to
// restart. idle reports that it has ended already: there is no DaemonRollout.
func (s *State) IsReleased(in *rollout.Input, d *rollout.Decision) (released, idle bool) {
	idle = in.Settings.Strategy == rollout.RestartsOnly && d.IsIdle()
	switch {
	case idle && s.Rollout.ResourceVersion == "":
		return true, true
	case in.Blocked != nil:
		return false, false
	}
	return idle || in.Settings.Strategy == daemonset.NoStrategy, false
}
