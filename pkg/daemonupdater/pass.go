package daemonupdater

import (
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// pass is one pass over a group: what it read, and what it decided.
type pass struct {
	*observed.State
	// rolloutUnseen: the cache does not show the rollout, which this process made.
	// Somebody may have deleted it since, and of that there would be no event.
	rolloutUnseen bool
	fleet         *fleet
	in            rollout.Input
	decision      rollout.Decision
}
