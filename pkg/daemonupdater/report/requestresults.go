package report

import (
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// RequestResults computes the results of requests on nodes from one decision.
type RequestResults struct {
	State    *observed.State
	Fleet    *rollout.Fleet
	Input    *rollout.Input
	Decision *rollout.Decision
	// Rejected are the pin requests that were rejected.
	Refused map[pinning.RequestKey]pinning.Refusal
	// PinRequestsBlockedBy says why pin requests cannot be decided now, "" if they can.
	PinRequestsBlockedBy string
}
