package rollout

import (
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Member is one DaemonSet of the group.
type Member struct {
	// Key is namespace/name.
	Key string
	// Target is the hash of its newest ControllerRevision; "" when not known, in which case
	// Input.Blocked is set.
	Target string
	// Heavy: its pods are replaced by an operation on the node, for which the node agent must have
	// the capabilities Needs.
	Heavy bool
	Needs []string
	// ReplacedWithOthers: its pods are always replaced together with those of another member, even if
	// they are not outdated or are left out.
	ReplacedWithOthers bool
	// Restarts: its operation restarts the container runtime.
	Restarts bool
	// LeftOut: the upgrade is limited to other members.
	LeftOut bool
	// Component is its key in the gr. Image is the version of the image of its new pods, "" if it
	// leaves; Earlier has those of its earlier revisions, by hash. Only Policy.Versions needs them.
	Component string
	Image     string
	Earlier   map[string]string
}

// group holds what the facts of a node depend on besides the node.
type group struct {
	strategy  daemonset.Strategy
	members   []Member
	policy    Policy
	deadlines Deadlines
}

// Deadlines bound how long a node may keep a slot.
type Deadlines struct {
	// Progress is how long a reachable node may take to become available.
	Progress time.Duration
	// Lost is how long a node that went offline after it was touched may take to come back.
	Lost time.Duration
	// Unavailable is how long a node must be unavailable to come before the waves.
	Unavailable time.Duration
	// Probation is how long a node is on probation after its new pod became available, unless its
	// kubelet renews its Lease. A pod is also blamed if its node goes offline within this time after
	// the pod was created. 0 for neither.
	Probation time.Duration
}

// DefaultDeadlines apply where no policy sets them (design section 3).
var DefaultDeadlines = Deadlines{Progress: 10 * time.Minute, Lost: 15 * time.Minute, Unavailable: 30 * time.Second, Probation: 2 * time.Minute}
