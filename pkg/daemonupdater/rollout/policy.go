package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// Policy refines the rollout of a group. The zero value stands for no policy. Waves, the window and
// Returned apply to nodes that the operator starts on its own; nodes with requests under OTA are
// subject to the budgets only.
type Policy struct {
	// PoolMaxUnavailable, when set, limits the unavailable nodes of each pool (Node.Pool).
	PoolMaxUnavailable *intstr.IntOrString
	// Waves are upgraded one after the other; nodes in no wave come last.
	Waves []Wave
	// ControlPlane is the position of control plane nodes in the order.
	ControlPlane ControlPlane
	// Returned is how long a node must have been Ready before it is started.
	Returned time.Duration
	// Threshold, when set, is how many started nodes must fail to halt the rollout.
	Threshold *intstr.IntOrString
	// Window, when set, limits when nodes are started.
	Window *Window
	// Approved holds the manual waves and batches of the plan that a person approved for this revision, a
	// batch by its BatchApproval.
	Approved map[string]bool
	// Plan is the name of the plan in force, "" for none, and Batches are its batches, in order
	// (batches.go).
	Plan    string
	Batches []Batch
	// PlanVersion identifies the content of the plan.
	PlanVersion string
	// Versions decides which versions a node may get; nil allows all.
	Versions *versions.Policy
}

// Wave is a set of nodes that is upgraded before others; exactly one of Selector and Size is set.
type Wave struct {
	Name     string
	Selector labels.Selector
	Size     *intstr.IntOrString
	Soak     time.Duration
	// Manual: the wave starts only once it is approved.
	Manual bool
}

// selects reports whether a wave may include a node with these labels.
func (w *Wave) selects(of map[string]string) bool {
	return w.Selector == nil || w.Selector.Matches(labels.Set(of))
}

// Batch is a part of a plan.
type Batch struct {
	Name string
	// Manual: the batch starts only once it is approved.
	Manual bool
}

// RestWave names the nodes that are in no wave of the policy.
const RestWave = "rest"

// ControlPlane is the position of control plane nodes in the order.
type ControlPlane int

// Positions of control plane nodes.
const (
	ControlPlaneAny ControlPlane = iota
	ControlPlaneFirst
	ControlPlaneLast
)

// scaled returns a count, or a percentage of total, rounded up; at least 1.
func scaled(value *intstr.IntOrString, total int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(value, total, true)
	if err != nil { // the API server admits only values that parse
		return 1
	}
	return max(1, n)
}
