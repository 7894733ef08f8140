package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// Node is one node: what was observed of it, and what its Fleet adds to that.
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

	// What follows is the fleet's, which sets all of it: facts from the above, ledgerEntry from the current decision.
	facts
	ledgerEntry
	group *group
	hash  uint64
	// pins of the ledger for its name.
	pins []Pin
	// wave is the index of its wave, lane its lane while it is a candidate.
	wave int
	lane *lane
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
	// WorksSince is since when the pod has been available without a break, or will be if AvailableAt is set, however old it is; zero
	// if it is not Ready. It is by the clock of Input.Now, unless it is long ago.
	WorksSince time.Time
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
	// verified its work. Forgotten: only a failure in the ledger shows that, which it does not any more when the node is started.
	Unverified, Forgotten bool
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
	// Unbound: it is not bound to its node, so it has never run there.
	Unbound bool
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

// runsNothing reports whether a pod runs nothing, so that replacing it disturbs no workload.
func (p *Pod) runsNothing() bool { return p.Placeholder || p.RivalRuns }

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

// isBack reports whether a pod is of the revision that it is pinned to. That it does not work there shows no upgrade that has
// begun: like one with an old pod that does not work, its node is unavailable, and in flight only under a slot.
func (p *Pod) isBack() bool { return !p.isAbsent() && p.Pin != "" && p.Revision == p.Pin }

// isUnready reports whether there is no pod that is Ready, if only for less than minReadySeconds.
func (p *Pod) isUnready() bool { return p.isAbsent() || !p.Available && p.AvailableAt.IsZero() }

// facts are derived from a node and its pods alone, without slots and failures.
type facts struct {
	// absent: a pod is missing or terminating.
	absent bool
	// unknown: the target of a member is not known yet.
	unknown bool
	// outdated: a pod that is not terminating is not at its target, or still has to be verified.
	outdated bool
	// behind: a pod that is not terminating is not at its target.
	behind bool
	// unbound: a pod in which something will run is not bound to the node, so nothing shows that the node has had its revision.
	unbound bool
	// pinned: a pod is kept at an earlier revision than its target, or goes back to it.
	pinned bool
	// goingBack: a pod is to be replaced by one of the revision that it is pinned to, or the node is back and has to return to
	// service. What else is left to do on a pinned node waits like on any other.
	goingBack bool
	// replaceable: an outdated pod may be replaced, or verified, under the strategy.
	replaceable bool
	// heavy: an operation has to replace or verify one of them, or an operation keeps the node cordoned.
	heavy bool
	// available: the node is Ready, every pod on it is available, and no operation has taken it out of
	// service. unavailable: the node is Ready and not available. An offline node is neither.
	// charged: the node is unavailable and counts against the limit. One that another group keeps out
	// of service does not count, even if it lacks pods of this group for that reason.
	available, unavailable, charged bool
	// unready: the node is Ready, and a pod on it is not, since unreadySince. Pods that only wait
	// for minReadySeconds do not count.
	unready      bool
	unreadySince time.Time
	// awaitingMinReady: a pod at its target only waits for minReadySeconds.
	awaitingMinReady bool
	// onProbation: the node is Ready, and its kubelet has not renewed its Lease since a pod at its
	// target became available: the node may be dead already.
	onProbation bool
	// pull is the progress of pulling the images that the node needs before it starts; notPrepulled: some
	// are left to the kubelet.
	pull         PullState
	notPrepulled bool
	// noSuccessor: a pod that would be replaced has no successor.
	noSuccessor bool
	// notAllowed says why the policy does not allow the versions that the node would get, "" if it does.
	notAllowed string
	// moving: the node is Ready, and a pod is missing, terminating, or at its target and not
	// available, or an operation is at work. The node is in flight, even without a slot. Pods
	// on a node that an ended operation keeps cordoned do not count: they wait for another
	// operation. Nor do those that are back where they are pinned.
	moving bool
	// updated: nothing is left to do on the node. An offline node is updated when its pods
	// are at the target, in any state.
	updated bool
	// suspect is a pod that may have failed the node after it gave its slot back (suspectpod.go); nil if there is none.
	suspect *Pod
	// unsettled: a pod that was replaced lately, or crashes, is not Ready, or was not shortly before.
	unsettled bool
	// phase follows from the fields above. changes is when the facts may change by time alone, zero for
	// never.
	phase   phase
	changes time.Time
}

// phase is where a node stands according to its facts alone.
type phase int

const (
	// phaseUpdated: nothing is left to do.
	phaseUpdated phase = iota
	// phasePinned: the same, and a pod is kept at an earlier revision than its target.
	phasePinned
	// phaseOffline: something is left to do, and the node has been offline for some time.
	phaseOffline
	// phaseJustOffline: the same, but not long enough to be skipped.
	phaseJustOffline
	// phaseUnavailable: a pod is missing or not available, and none is outdated.
	phaseUnavailable
	// phaseHeld: something is left to do, and a hold excludes the node.
	phaseHeld
	// phaseLeftToAdministrator: an administrator has to restart the container runtime.
	phaseLeftToAdministrator
	// phaseAwaitingRequest: outdated, and its pods are not replaced: strategy OTA without a request.
	phaseAwaitingRequest
	// phaseExcluded: the upgrade is limited to other nodes or components.
	phaseExcluded
	// phaseNoSuccessor: the successor of a pod would not be created.
	phaseNoSuccessor
	// phaseVersionNotAllowed: the policy does not allow the versions that the node would get.
	phaseVersionNotAllowed
	// phaseAgentTooOld: the node agent cannot execute a task of the operation that is needed.
	phaseAgentTooOld
	// phaseRecovering: unavailable for too short a time to be urgent, or about to be available.
	phaseRecovering
	// phaseRecentlyReturned: the node has not been Ready for long enough to start.
	phaseRecentlyReturned
	// phaseBusy: the node has an operation of another group.
	phaseBusy
	// phaseKeptCordoned: an ended operation of another group keeps the node out of service.
	phaseKeptCordoned
	// phaseDeferred: the node is retried later.
	phaseDeferred
	// phasePrepullFailed: its images cannot be pulled, so it keeps its pods.
	phasePrepullFailed
	// phaseSetBack: the runtime is restarted later, because something sets it back each time.
	phaseSetBack
	// phaseCandidate: the node may start.
	phaseCandidate

	phases = int(phaseCandidate) + 1
)

// ledgerEntry is what the current decision stores for a node in the ledger. A queued node is not in flight, so its
// slot is not here.
type ledgerEntry struct {
	queued  bool
	slot    *Slot
	failure *Failure
	// fencing: its slot is kept until a pod is fenced, which is not deleted meanwhile.
	fencing bool
	// mayBeBack: it waits for an operation under its slot, because it may be back in service in a moment.
	mayBeBack bool
	// listed: the node is in nodeIndex.recorded.
	listed bool
}

// isEmpty reports whether a node has neither a slot nor a failure and is not queued.
func (e *ledgerEntry) isEmpty() bool { return e.slot == nil && e.failure == nil && !e.queued }
