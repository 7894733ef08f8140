package daemonupdater

import (
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// pass is one pass over a group: what it read and decided.
type pass struct {
	*observed.State
	// rolloutUnseen: this process created the rollout, but the cache does not show it. Someone
	// may have deleted it since, which would cause no event.
	rolloutUnseen bool
	fleet         *fleet
	in            rollout.Input
	decision      rollout.Decision
}
