package rollout

import (
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Input is everything a decision depends on.
type Input struct {
	// Now is the time of the decision.
	Now time.Time
	// Settings of the group, ignored while Blocked is set.
	Settings daemonset.Settings
	// Blocked, when set, says why nothing may be touched: the settings are invalid, or a target is not
	// known yet.
	Blocked *Blocked
	// Beforehand, when set, says which global task of the plan comes before the nodes: no node starts. Those in
	// flight go on.
	Beforehand *Blocked
	// Afterwards, when set, says what is left to do after the nodes. No decision about nodes uses it.
	Afterwards *Blocked
	// Revision identifies the targets of all members together.
	Revision string
	// Members are the DaemonSets, in the order in which a node's pods are replaced.
	Members []Member
	// Nodes that should run the group or run a pod of it. Fleet.Plan ignores them: a Fleet holds
	// its own.
	Nodes []Node
	// Ledger is what earlier decisions recorded.
	Ledger Ledger
	// Policy refines the settings; the zero value is no policy.
	Policy Policy
	// Deadlines bound how long a node may keep a slot.
	Deadlines Deadlines
	// Ending: the GcuResource or DaemonSet is being deleted or gone, so nothing new starts, and operations are aborted.
	Ending bool
	// Resume is the value with which a person last resumed the rollout, "" for none; a new value
	// clears the failure count and resumes.
	Resume string
}

// Upgrades reports whether the strategy replaces outdated pods.
func (in *Input) Upgrades() bool {
	return in.Settings.Strategy == daemonset.AdvancedRollingUpdate || in.Settings.Strategy == daemonset.OTA
}

// Blocked is why nothing may be touched, or why nodes have to wait.
type Blocked struct {
	Reason  string
	Message string
}
