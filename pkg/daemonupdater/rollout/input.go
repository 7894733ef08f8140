package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
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

// Node is one node as observed.
type Node struct {
	Name string
	UID  types.UID
	// Machine identifies the machine across its Node objects; "" if it is not known.
	Machine string
	Zone    string
	// Labels of the node, for the selectors of waves; Policy.Versions needs them and Kernel.
	Labels map[string]string
	Kernel string
	// Pool is the value of the policy's topology key.
	Pool string
	// ControlPlane is true for a control plane node.
	ControlPlane bool
	// LeftOut: the upgrade is limited to other nodes.
	LeftOut bool
	// Batch is the index of the node's batch in Policy.Batches, the number of batches if it is in
	// none. It does not matter without a plan.
	Batch int
	// HostsOperator: the operator runs on it, so it comes last in its wave.
	HostsOperator bool
	// TimeZone is the node's own zone for the maintenance window, nil if it has none. ZoneError
	// says what is wrong with the zone it names.
	TimeZone  *time.Location
	ZoneError string
	// Ready is the status of the Ready condition. ReadySince is its last transition by the clock
	// of Input.Now, ReadyWritten the same by the clock of its writer: the kubelet while it lives,
	// otherwise the control plane. ReadyEarliest is when it was at the earliest: ReadySince if it was seen, otherwise not later
	// than ReadyWritten.
	Ready                                   bool
	ReadySince, ReadyWritten, ReadyEarliest time.Time
	// Pods has one element per member that should run on the node, in member order; a node without
	// any is not in the group.
	Pods []Pod
	// New are the components, with their versions, that a previewed change deploys on the node at once.
	// Only Policy.Versions and the plan of the preview need them.
	New []versions.Component
	// Operation is the one on the node that has not ended, or that keeps it cordoned; nil if there
	// is none. Ended are the ended operations of any group, newest last.
	Operation *Operation
	Ended     []End
	// Holds exclude the node from upgrades.
	Holds []daemonset.Hold
	// Replaced are the members that were replaced on the node under slots that ended lately, by key, and when each slot ended,
	// by the clock of Now. It is not changed, and may lack members.
	Replaced map[string]time.Time
	// Disturbed: an operation of any group may have taken the node out of service.
	Disturbed bool
	// Renewed is when its kubelet last renewed its Lease, by the kubelet's clock; zero if that is not
	// known.
	Renewed time.Time
	// Requested is the latest time of a request, by the node's clock; zero if there is none.
	Requested time.Time
	// Agent is the node agent.
	Agent Agent
	// NeedsRestart: containers get no cards before the container runtime is restarted.
	NeedsRestart bool
	// LeftToAdministrator says what an administrator has to do for that, "" if an operation may restart
	// the runtime.
	LeftToAdministrator string
	// DeniedDeletion is the deletion of a pod that the API server last denied, nil if there is none.
	DeniedDeletion *Denial
	// DeniedFence is the fence of a pod that the API server last denied, nil if there is none.
	DeniedFence *Denial
	// DeniedOperation is the write of its operation that the API server last denied, nil if there is none.
	DeniedOperation *Denial
	// DeniedAtGate is what the API server last denied about a pod at the gate, nil for nothing: its release, or the creation
	// of an earlier one in its place.
	DeniedAtGate *Denial
	// Retry is when the node may be retried, zero for now; RetryWhy is why it waits. SetBack is set if it
	// waits because something sets the default runtime back after restarts, "" otherwise.
	Retry    time.Time
	RetryWhy string
	SetBack  string
}

// Agent is the node agent of a node.
type Agent struct {
	// Version is "" if it is not known.
	Version string
	// Capabilities are the kinds of tasks that it executes in operations.
	Capabilities []string
}

// Pod is the pod of one member on one node.
type Pod struct {
	// Node is the name of the node.
	Node string
	// Member is an index into Input.Members.
	Member int
	// Name and UID are empty when the pod is missing.
	Name string
	UID  types.UID
	// Version is the pod's resourceVersion.
	Version string
	// Image is the version of its image, for Policy.Versions.
	Image string
	// Created is when the pod was created.
	Created time.Time
	// Revision is the pod's controller-revision-hash.
	Revision    string
	Terminating bool
	Available   bool
	// AvailableAt is when the pod becomes available if nothing changes; zero when it is available
	// or the time is unknown.
	AvailableAt time.Time
	// AvailableSince is when the pod was first available, or will be if AvailableAt is set, by the
	// clock of Input.Now; AvailableWritten is when it last became so, by the clock of its kubelet
	// and in whole seconds. Both are zero if that was long ago.
	AvailableSince, AvailableWritten time.Time
	// CrashLooping names a container that crash-loops, "" if none does.
	CrashLooping string
	// ReadyAgain is when it last became Ready after a container had restarted, zero if none has, or if it is not Ready.
	ReadyAgain time.Time
	// Ran is how long a container of it ran before it last ended, zero if none has.
	Ran time.Duration
	// NotReadySince is when it became not Ready, or missing; zero if it is Ready, or if the time is not
	// known. NotReadyEarliest is when it was not Ready at the earliest, like Node.ReadyEarliest.
	NotReadySince, NotReadyEarliest time.Time
	// Unverified: the last operation that was to replace it touched the node, and ended before it
	// verified its work.
	Unverified bool
	// NoCards: it uses the device and has no cards, because it started before the container runtime was
	// set up. Until it is replaced, pods cannot use the cards of the node.
	NoCards bool
	// OffersNone: it is the device plugin of a node that offers none of its cards, though it could.
	OffersNone bool
	// NoSuccessor says why no pod is created in place of this one once it is deleted, "" if one is.
	NoSuccessor string
	// LeftOut: the plan does not replace this component on this node.
	LeftOut bool
	// Pin is the revision that the ledger keeps the pod at instead of the target, "" for none; the fleet sets it.
	Pin string
	// Gated: it waits at the gate, so none of its containers runs.
	Gated bool
	// Request is the open request on the node for this member, nil if there is none; it names the very pod that it is for. Its time is
	// by the node's clock, but not later than now. RequestRuns: the status says that the node was started for it.
	Request     *topsv1.UpgradeRequest
	RequestRuns bool
	// Pull is the progress of pulling the images that its successor needs and that it does not run.
	Pull Pull
	// Placeholder: nothing ever runs in it, because its DaemonSet is leaving, or was when the pod was
	// created. RivalRuns: it is not scheduled, because a pod that it must not run beside still runs on
	// the node: one of the DaemonSet that it takes over from or hands over to. Both count as available.
	Placeholder, RivalRuns bool
}

// isAside reports whether a pod runs nothing, so that replacing it disturbs no workload.
func (p *Pod) isAside() bool { return p.Placeholder || p.RivalRuns }

// Denial is a write that the API server, or a webhook, denied.
type Denial struct {
	// Object is the UID of the pod, or of the node for an operation or a pull. Since is when the write
	// was first denied, Retry when it is retried.
	Object       types.UID
	Since, Retry time.Time
	Message      string
}

// isAbsent reports whether a pod is missing or terminating.
func (p *Pod) isAbsent() bool { return p.UID == "" || p.Terminating }

// isUnready reports whether there is no pod that is Ready, if only for less than minReadySeconds.
func (p *Pod) isUnready() bool { return p.isAbsent() || !p.Available && p.AvailableAt.IsZero() }

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
