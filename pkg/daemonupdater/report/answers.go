package report

import (
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Answers computes the answers to requests on nodes that follow from one decision.
type Answers struct {
	State    *observed.State
	Fleet    *rollout.Fleet
	Input    *rollout.Input
	Decision *rollout.Decision
	// Refused are the requests by people that are not carried out.
	Refused map[pinning.AskKey]pinning.Refusal
	// AsksWait says why none of them is decided now, "" if they are.
	AsksWait string
}
