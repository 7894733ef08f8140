package preview

import (
	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Question is what is asked.
type Question struct {
	// Present is the gr as it is, and Wanted as it would be: its spec and its upgrade
	// annotations count. With the same in both it is what is still to be done.
	Present, Wanted *topsv1.GcuResource
	// Approved: every wave counts as approved.
	Approved bool
}

// Preview is what an upgrade is going to do when nothing fails.
type Preview struct {
	GcuResource string `json:"gcuResource"`
	// Only is what it is limited to, as annotation upgrade-only has it; "" for everything.
	Only string `json:"only,omitempty"`
	// Components of which something changes, in the order in which they are deployed.
	Components []Component `json:"components"`
	Rollout
}
