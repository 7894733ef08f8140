package display

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Outdated is the state of an outdated node without an update strategy.
const Outdated = "outdated"

// States are the values for a filter of nodes.
var States = []string{string(rollout.Updated), string(rollout.InFlight), string(rollout.Pending), string(rollout.Held),
	string(rollout.Skipped), string(rollout.Failed), string(rollout.Pinned), Outdated}

// Fleet is what was read about the nodes of a gr.
type Fleet struct {
	Resource *topsv1.GcuResource
	// Rollout is nil if there is none, as without an update strategy, or if it is not found.
	Rollout *topsv1.DaemonRollout
	// DaemonSets of the gr, with all ControllerRevisions and Pods that may belong to them.
	DaemonSets   []appsv1.DaemonSet
	Revisions    []appsv1.ControllerRevision
	Pods         []corev1.Pod
	Nodes        []corev1.Node
	NodeUpgrades []topsv1.NodeUpgrade
	Now          time.Time
}

// NodesOf describes every node that should run a DaemonSet of a gr, sorted by name. Nodes
// that the rollout lists have its state; others are judged by their pods, as in the
// rollout.
func NodesOf(f *Fleet) []Node {
	w := newWatch(f)
	list := []Node{}
	for i := range f.Nodes {
		if n, ok := w.node(&f.Nodes[i]); ok {
			list = append(list, n.advised(f.Resource.Name))
		}
	}
	slices.SortFunc(list, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// watch is a Fleet with indexes.
type watch struct {
	*Fleet
	key      string
	upgrades map[string]*topsv1.NodeUpgrade
	recorded map[string]Node
	queued   map[string]metav1.Time
	members  []member
}

// member is one DaemonSet with the pods that count, by node.
type member struct {
	set    *appsv1.DaemonSet
	runs   func(*corev1.Node) daemonset.Placement
	target string
	pods   map[string]*corev1.Pod
}

// add adds a pod of the DaemonSet. Of several on a node, the one counts by which the rollout judges it.
func (m *member) add(pod *corev1.Pod) {
	node := daemonset.NodeName(pod)
	if other := m.pods[node]; other != nil {
		pod = daemonset.PodOf([]*corev1.Pod{other, pod})
	}
	m.pods[node] = pod
}

// isAvailable reports whether the DaemonSet has its pod on a node; pod is nil without one. Nothing is to run in a placeholder.
func (m *member) isAvailable(pod *corev1.Pod, now time.Time) bool {
	if pod == nil || daemonset.IsPlaceholder(pod) {
		return pod != nil && pod.DeletionTimestamp == nil
	}
	ok, _ := daemonset.Availability(pod, m.set.Spec.MinReadySeconds, now)
	return ok
}

func newWatch(f *Fleet) *watch {
	w := &watch{Fleet: f, upgrades: upgradesOf(f.NodeUpgrades), recorded: map[string]Node{}, queued: map[string]metav1.Time{}}
	revisions := make([]*appsv1.ControllerRevision, 0, len(f.Revisions))
	for i := range f.Revisions {
		revisions = append(revisions, &f.Revisions[i])
	}
	for i := range f.DaemonSets {
		set := &f.DaemonSets[i]
		m := member{set: set, runs: daemonset.Placing(set), pods: map[string]*corev1.Pod{}}
		m.target, _ = daemonset.TargetRevision(set, revisions) // on error the target is unknown: no pod counts as outdated
		for j := range f.Pods {
			if owner := daemonset.Owner(&f.Pods[j]); owner != nil && owner.UID == set.UID {
				m.add(&f.Pods[j])
			}
		}
		w.members = append(w.members, m)
	}
	w.readLedger()
	return w
}

// readLedger adopts what the status of the rollout says about single nodes.
func (w *watch) readLedger() {
	if w.Rollout == nil {
		return
	}
	w.key = w.Rollout.Namespace + "/" + w.Rollout.Name
	s := &w.Rollout.Status
	for i := range s.Queued {
		w.queued[s.Queued[i].Node] = s.Queued[i].Since
	}
	for i := range s.Pinned {
		p := &s.Pinned[i]
		w.recorded[p.Node] = Node{Name: p.Node, State: string(rollout.Pinned), Reason: string(rollout.ReasonPinned), Message: p.Message, Since: &p.Since}
	}
	for i := range s.Failed {
		w.recorded[s.Failed[i].Node] = noted(rollout.Failed, &s.Failed[i], w.operation(s.Failed[i].Node))
	}
	for i := range s.InFlight {
		slot := &s.InFlight[i]
		w.recorded[slot.Node] = inFlight(w.Rollout, slot, w.operation(slot.Node), w.Now)
	}
}

func (w *watch) operation(node string) *Operation { return operationOf(w.upgrades[node], w.key) }

// node describes one node; false if no pod of the gr belongs there.
func (w *watch) node(node *corev1.Node) (Node, bool) {
	belongs, outdated, missing := w.look(node)
	if !belongs {
		return Node{}, false
	}
	if n, ok := w.recorded[node.Name]; ok {
		return n, true
	}
	remaining := w.remainingWork(node)
	n := Node{Name: node.Name, Operation: w.operation(node.Name)}
	ready, since := daemonset.NodeReady(node)
	switch {
	case outdated == "" && missing == "" && remaining == "":
		n.State, n.Reason = string(rollout.Updated), string(rollout.ReasonAtTarget)
	case !ready:
		n.State, n.Reason, n.Since = string(rollout.Skipped), string(rollout.ReasonNodeOffline), &since
		n.Message = "the node is not Ready; it is upgraded when it is back"
	case outdated == "" && remaining == "":
		n.State, n.Reason, n.Message = string(rollout.Pending), string(rollout.ReasonUnavailable), missing
	case w.Rollout == nil && StrategyOf(w.Resource.Annotations) != "":
		n.State, n.Reason, n.Message = string(rollout.Pending), ReasonNotSeen, outdated
	case w.Rollout == nil || w.restartsOnly() && remaining == "":
		n.State, n.Reason, n.Message = Outdated, status.ReasonNoStrategy, outdated
	default:
		w.waits(&n)
		n.Message = cmp.Or(n.Message, outdated, remaining)
	}
	return n, true
}

// look judges the pods of a node: whether any belongs there, which are outdated and which
// are not available.
func (w *watch) look(node *corev1.Node) (belongs bool, outdated, missing string) {
	var old, absent []string
	for i := range w.members {
		m := &w.members[i]
		pod, place := m.pods[node.Name], m.runs(node)
		if pod == nil && !place.Create || pod != nil && !place.Keep {
			continue
		}
		belongs = true
		name := m.set.Namespace + "/" + m.set.Name
		if pod != nil && pod.DeletionTimestamp == nil && m.target != "" && daemonset.RevisionHash(pod) != m.target {
			old = append(old, name)
		}
		if !m.isAvailable(pod, w.Now) {
			absent = append(absent, name)
		}
	}
	return belongs, phrase("outdated: ", old), phrase("no available pod of ", absent)
}

// restartsOnly reports whether the rollout only restarts runtimes, because its gr has no strategy.
func (w *watch) restartsOnly() bool { return w.Rollout.Status.Strategy == string(rollout.RestartsOnly) }

// remainingWork returns what still has to be done on a node although its pods are at their targets, "" for
// nothing.
func (w *watch) remainingWork(node *corev1.Node) string {
	upgrade := w.upgrades[node.Name]
	if upgrade == nil || w.Rollout == nil || w.Rollout.Spec.TargetRef.Kind != "GcuResource" {
		return ""
	}
	for i := range w.members {
		m := &w.members[i]
		pod, component := m.pods[node.Name], m.set.Labels[topsv1.LabelComponent]
		if pod == nil || daemonset.IsPlaceholder(pod) || daemonset.RevisionHash(pod) != m.target {
			continue
		}
		toolkit := component == upgradeplan.TargetToolkit
		if toolkit && upgrade.Status.Host.NeedsRestart() {
			return "the container runtime has to be restarted"
		}
		if (toolkit || component == upgradeplan.TargetDriver) && !w.restartsOnly() && operation.Unverified(upgrade, component, m.set) {
			return "the last operation ended before the " + component + " was verified"
		}
		if operation.HasNoCards(upgrade, node, component, pod, w.Now) {
			return "the " + component + " started before the container runtime had the right default, and has no cards: it is replaced"
		}
	}
	return ""
}

func phrase(start string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return start + message.Names(names)
}

// waits adds why a Ready node with work left is not being upgraded. The rollout counts
// reasons without naming nodes, so reasons that the node's own objects show are ruled out
// first.
func (w *watch) waits(n *Node) {
	own := w.ownReason(n)
	if own != "" {
		n.Reason, n.State = own, string(rollout.Reason(own).State())
		return
	}
	var left []topsv1.WaitingNote
	for _, note := range w.Rollout.Status.Waiting {
		if !slices.Contains(byObjects, note.Reason) {
			left = append(left, note)
		}
	}
	switch len(left) {
	case 0:
		n.State, n.Reason = string(rollout.Pending), ReasonWaiting
		n.Message = "the rollout has not counted this node yet"
	case 1:
		n.Reason, n.Message = left[0].Reason, left[0].Message
		n.State = string(rollout.Reason(n.Reason).State())
	default:
		n.State, n.Reason = stateOf(left), ReasonWaiting
		words := make([]string, 0, len(left))
		for _, note := range left {
			words = append(words, fmt.Sprintf("%s (%s)", note.Reason, message.Count(int(note.Nodes), "node")))
		}
		n.Message = "one of " + strings.Join(words, ", ")
	}
}

// stateOf returns the state of nodes that wait for one of several reasons: held only if all
// of them mean held.
func stateOf(notes []topsv1.WaitingNote) string {
	for _, note := range notes {
		if rollout.Reason(note.Reason).State() != rollout.Held {
			return string(rollout.Pending)
		}
	}
	return string(rollout.Held)
}

// byObjects are the reasons that a node's own objects show.
var byObjects = []string{string(rollout.ReasonQueued), string(rollout.ReasonNodeBusy), string(rollout.ReasonPreparing),
	string(rollout.ReasonDeferred), string(rollout.ReasonUnavailable), string(rollout.ReasonNodeHeld), string(rollout.ReasonLeftToAdministrator),
	string(rollout.ReasonRuntimeSetBack)}

// ownReason returns the reason that the node's objects show, or "".
func (w *watch) ownReason(n *Node) string {
	if since, ok := w.queued[n.Name]; ok && waitsFor(w.Rollout, rollout.ReasonQueued) {
		n.Since = &since
		return string(rollout.ReasonQueued)
	}
	upgrade := w.upgrades[n.Name]
	if holds := daemonset.HoldsOf(upgrade); len(holds) > 0 {
		n.Message = daemonset.HoldWords(holds, n.Name)
		if !holds[0].Since.IsZero() {
			n.Since = &metav1.Time{Time: holds[0].Since}
		}
		return string(rollout.ReasonNodeHeld)
	}
	if upgrade == nil {
		return ""
	}
	if reason := w.restartReason(n, upgrade); reason != "" || upgrade.Status.Operation == nil {
		return reason
	}
	shown := upgrade.Status.Operation
	if d := deferred(w.Rollout, upgrade, n.Operation, w.Now); d != nil {
		n.Message, n.Since, n.Stuck = d.Message, d.Since, true
		return d.Reason
	}
	if shown.Phase.Final() && !shown.Held {
		return ""
	}
	n.Message, n.Since = sentence(shown.Task, shown.Message), &shown.Since
	if shown.Rollout != w.key {
		return string(rollout.ReasonNodeBusy)
	}
	if shown.InUse && !shown.Granted && waitsFor(w.Rollout, rollout.ReasonAwaitingRequest) {
		return string(rollout.ReasonAwaitingRequest)
	}
	return string(rollout.ReasonPreparing)
}

// restartReason returns why the container runtime of a node is not restarted now, or "".
func (w *watch) restartReason(n *Node, upgrade *topsv1.NodeUpgrade) string {
	_, last := operation.Backoff(upgrade, w.Rollout.Status.Revision, w.Now)
	for _, why := range []struct {
		reason  rollout.Reason
		message string
	}{
		{rollout.ReasonLeftToAdministrator, operation.LeftToAdministrator(upgrade)},
		{rollout.ReasonRuntimeSetBack, operation.SetBack(upgrade, last)},
	} {
		if why.message != "" && waitsFor(w.Rollout, why.reason) {
			n.Message = why.message
			return string(why.reason)
		}
	}
	return ""
}

// waitsFor reports whether a node of a rollout waits for a reason.
func waitsFor(dro *topsv1.DaemonRollout, reason rollout.Reason) bool {
	return slices.ContainsFunc(dro.Status.Waiting, func(n topsv1.WaitingNote) bool { return n.Reason == string(reason) })
}

// Named returns the nodes in a state, all for "".
func Named(nodes []Node, state string) []Node {
	list := []Node{}
	for _, n := range nodes {
		if state == "" || n.State == state {
			list = append(list, n)
		}
	}
	return list
}

// NodesText has one line per node.
func NodesText(nodes []Node, s Style) string { return nodeTable(nodes, s).Text(s) }

// Line is the state of a node in one line.
func (n *Node) Line() string {
	parts := []string{n.Name + ":", n.State}
	if n.Reason != "" {
		parts = append(parts, n.Reason)
	}
	if op := n.Operation; op != nil && op.Task != "" {
		parts = append(parts, strings.TrimPrefix(op.Task, n.Name+"_"))
	}
	line := strings.Join(parts, " ")
	if n.Message != "" {
		line += ": " + n.Message
	}
	return line
}

func nodeTable(nodes []Node, s Style) Table {
	t := Table{Header: []string{"NODE", "STATE", "REASON", "SINCE", "PHASE", "TASK", "MESSAGE", "OPERATION", "WHAT TO DO"}}
	for _, n := range nodes {
		row := cells(n.Name, n.State, n.Reason, "", "", "", n.Message, "", n.Do)
		row[1].Tone = toneOfNode(&n)
		if n.Since != nil {
			row[3].Text = s.age(*n.Since)
		}
		if op := n.Operation; op != nil {
			row[4].Text, row[5].Text = op.Phase, strings.TrimPrefix(op.Task, n.Name+"_")
			if s.Wide {
				row[7].Text = op.ID
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func toneOfNode(n *Node) Tone {
	switch {
	case n.State == string(rollout.Failed) || n.Stuck:
		return Bad
	case n.State == string(rollout.Updated):
		return Good
	}
	return Busy
}
