package dashboard

import (
	"context"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Source is the cluster with the rights of a user.
type Source interface {
	// Read returns all grs, sorted by name.
	Read(ctx context.Context) ([]Resource, error)
	// Reach sends a request to the API server, which Read does not; its error says why the results of Read are
	// not up to date.
	Reach(ctx context.Context) error
	// Detail returns what is shown of one node only, as of now.
	Detail(ctx context.Context, node string) (Detail, error)
	// Changed receives when something may have changed.
	Changed() <-chan struct{}
	// May reports whether the user may carry out a verb.
	May(ctx context.Context, verb Verb) bool
	// DryRun returns what an action would do. It sends the requests of Do with the same rights, as a dry run of the
	// API server. Its error is why the action would be refused; what is known is returned all the same.
	DryRun(ctx context.Context, a Action) (DryRun, error)
	// Do carries out an action, and returns what it did in the words of kubectl gcu. It refuses the action if the
	// state has changed since DryRun.
	Do(ctx context.Context, a Action) (string, error)
}

// Resource is a gr with its nodes.
type Resource struct {
	Status display.Status
	// Nodes are those of display.NodesOf.
	Nodes []display.Node
	// Zones are the values of label topology.kubernetes.io/zone, by node.
	Zones map[string]string
	// Waves of its policy, and batches of its plan; nil without one.
	Waves []display.Wave
	// Wave is the name of the wave of each node, by node; nil without a policy that has some.
	Wave map[string]string
	// Plan is the one in force, and Result its result; nil and empty without one.
	Plan   *topsv1.UpgradePlan
	Result planfile.Result
}

// Detail is what is known of a node.
type Detail struct {
	// Upgrade is nil if the node has none.
	Upgrade *topsv1.NodeUpgrade
	// Events about the NodeUpgrade, the newest first.
	Events []Event
}

// Event is an event about a node; Time is in SecondsLayout.
type Event struct{ Time, Reason, Message string }

// Verb is what a button does.
type Verb string

// Verbs, as of kubectl gcu; a closed list.
const (
	Pause    Verb = "pause"
	Resume   Verb = "resume"
	Approve  Verb = "approve"
	Rollback Verb = "rollback"
	Hold     Verb = "hold"
	Release  Verb = "release"
	Retry    Verb = "retry"
)

// Verbs are all of them.
var Verbs = []Verb{Pause, Resume, Approve, Rollback, Hold, Release, Retry}

// Action is a verb on an object.
type Action struct {
	Verb Verb
	// GR is the gr of pause, resume, approve and rollback.
	GR string
	// Target is what waits for approve (display.Wave.Awaits), the node of hold and release, and the task of retry, which begins
	// with the name of its node; empty for the others.
	Target string
	// Seen is the one that DryRun returned, for Do.
	Seen string
}

// DryRun is what an action would do. Fields that do not apply to its verb are empty.
type DryRun struct {
	// Seen identifies the state that the answer is about.
	Seen string
	// Says is what kubectl gcu says when it is done.
	Says string
	// Revision is the one that is approved, or restored; Changes are those of the spec, and Images what
	// is deployed.
	Revision        string
	Changes, Images []string
	// Nodes is how many nodes it affects: for approve the nodes of the wave that are not updated, for rollback
	// the nodes that go back; nil if that is not known. Names has some of their names.
	Nodes *int
	Names string
	// NotShown is what could not be determined, and why.
	NotShown []string
}
