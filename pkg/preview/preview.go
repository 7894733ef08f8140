package preview

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Question is an upgrade to predict.
type Question struct {
	// Present is the current gr, Wanted the upgraded one: its spec and its upgrade
	// annotations count. If they are equal, the preview is what is left to do.
	Present, Wanted *topsv1.GcuResource
	// Approved treats every wave as approved.
	Approved bool
	// Plan is followed as if it were stored, if the annotations of Wanted name it.
	Plan *planfile.Plan
	// WithoutEvictions omits which pods are evicted: finding out needs a read of all pods of the cluster.
	WithoutEvictions bool
}

// Preview is what an upgrade will do if nothing fails.
type Preview struct {
	GcuResource string `json:"gcuResource"`
	// Only is the limit of the upgrade, as in annotation upgrade-only; "" for none.
	Only string `json:"only,omitempty"`
	// Components that change, in the order of deployment.
	Components []Component `json:"components"`
	Rollout
}
