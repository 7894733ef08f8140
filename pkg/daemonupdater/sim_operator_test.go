package daemonupdater

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simMachineOf returns the state machine that decides about operations.
var simMachineOf = func() *operation.Machine {
	m, err := operation.New(upgradeplan.DefaultBook())
	if err != nil {
		panic(err) // the default book is valid
	}
	return m
}()

// simJobPass is one reconcile of a NodeUpgrade: what was seen, and the work left.
type simJobPass struct {
	node    string
	facts   operation.Facts
	version string // of the NodeUpgrade
	record  operation.Record
	stored  bool
	effects []operation.Effect
	until   time.Time
}

func simSorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// operate is the controller of NodeUpgrades in a manager. It continues the reconciles in
// progress, and, if start is set, reconciles the other nodes again.
func (m *simManager) operate(start bool) {
	if m.w.ops == nil || m.w.now.Before(m.frozen) && !m.w.calm {
		return
	}
	for _, h := range m.w.hosts {
		p := m.jobs[h.name]
		if p == nil && start && (m.w.calm || !m.w.chance(4)) {
			p = m.observeNode(h)
		}
		if p == nil {
			continue
		}
		m.jobs[h.name] = p
		if m.w.now.Before(p.until) && !m.w.calm {
			continue
		}
		if !m.goOn(p) {
			return
		}
	}
}

// observeNode observes a node and decides; nil if there is nothing to do.
func (m *simManager) observeNode(h *simHost) *simJobPass {
	u, _ := m.view.Objects[simapi.Key{Kind: simUpgrades, Name: h.name}].(*topsv1.NodeUpgrade)
	node := simapi.Get[*corev1.Node](m.w.api, simNodeKey(h.name))
	m.sweep(node)
	if u == nil {
		return nil
	}
	u = u.DeepCopy()
	wanted, op := u.Spec.Operation, u.Status.Operation
	marked := node != nil && len(simMarks(node)) > 0
	if over := op == nil || op.Phase.Final() && !op.Held; over && (wanted == nil || op != nil && op.ID == wanted.ID) && !marked {
		return nil
	}
	p := &simJobPass{node: h.name, version: u.ResourceVersion}
	p.facts = operation.Facts{Now: m.now(), Wanted: wanted, Host: u.Status.Host, HostSince: operation.HostSince(u, m.stateTimes, m.now()), Override: u.Annotations[topsv1.AnnotationTaskOverride],
		Record: operation.Record{Operation: op, History: u.Status.History}, Node: operation.Node{Name: h.name}}
	if node != nil {
		p.facts.Node = operation.NodeOf(node, func(r string) bool { return r == simCards }, m.stateTimes, m.now())
		p.facts.Drained = m.w.drained(h, op, p.facts.Node.Ready)
		if h.machine.left(false) > 0 {
			p.facts.CardUsers = []string{"workload"}
		}
	}
	p.facts.Members = m.membersOf(h.name, node, wanted, op)
	d := simMachineOf.Next(p.facts)
	p.record, p.effects, p.stored = d.Record, d.Effects, equality.Semantic.DeepEqual(d.Record, p.facts.Record)
	if p.stored && len(p.effects) == 0 {
		return nil
	}
	if !m.w.calm && m.w.chance(2*m.w.knobs.pause) {
		p.until = m.w.now.Add(m.w.seconds(0, 60))
	}
	return p
}

// simMarks returns the operations that a node is cordoned or closed for.
func simMarks(node *corev1.Node) []string {
	var marks []string
	if id := node.Annotations[topsv1.AnnotationCordonedBy]; id != "" {
		marks = append(marks, id)
	}
	for _, t := range node.Spec.Taints {
		if t.Key == topsv1.TaintDriverUpgrade {
			marks = append(marks, t.Value)
		}
	}
	return marks
}

// membersOf returns the DaemonSets that an operation is about, as the cache shows them.
func (m *simManager) membersOf(name string, node *corev1.Node, wanted *topsv1.NodeOperation, op *topsv1.OperationStatus) []operation.Member {
	var pods []*corev1.Pod
	for _, key := range m.view.Keys[simPods] {
		if pod := m.view.Objects[key].(*corev1.Pod); daemonset.NodeName(pod) == name {
			pods = append(pods, pod)
		}
	}
	var members []operation.Member
	known := map[types.UID]bool{}
	add := func(component string, ds *appsv1.DaemonSet, newest string) {
		known[ds.UID] = true
		members = append(members, operation.MemberOf(component, ds, newest, node, pods, m.stateTimes, m.now()))
	}
	if wanted != nil {
		for _, t := range wanted.Targets {
			ds, _ := m.view.Objects[simapi.Named(simSets, t.DaemonSet.Namespace, t.DaemonSet.Name)].(*appsv1.DaemonSet)
			if ds != nil && ds.UID == t.DaemonSet.UID {
				add(t.Component, ds, m.newestOf(ds, t.Revision))
			}
		}
	}
	for _, key := range m.view.Keys[simSets] {
		ds := m.view.Objects[key].(*appsv1.DaemonSet)
		if component := ds.Labels[topsv1.LabelComponent]; !known[ds.UID] && simMachineOf.Uses(component) {
			add(component, ds, "")
		}
	}
	if op == nil {
		return members
	}
	for _, task := range op.Tasks {
		if task.Pod == nil || slices.ContainsFunc(members, func(m operation.Member) bool { return m.Pod != nil && m.Pod.UID == task.Pod.UID }) {
			continue
		}
		if pod := simapi.Get[*corev1.Pod](m.w.api, simapi.Named(simPods, task.Pod.Namespace, task.Pod.Name)); pod != nil && pod.UID == task.Pod.UID {
			owner := daemonset.Owner(pod)
			gone := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID}}
			members = append(members, operation.MemberOf("", gone, "", nil, []*corev1.Pod{pod}, m.stateTimes, m.now()))
		}
	}
	return members
}

// newestOf returns the newest revision of a DaemonSet by the cache or, if that is not the
// expected one, by a live read.
func (m *simManager) newestOf(ds *appsv1.DaemonSet, expected string) string {
	var revisions []*appsv1.ControllerRevision
	for _, key := range m.view.Keys[simRevisions] {
		if r := m.view.Objects[key].(*appsv1.ControllerRevision); metav1.IsControlledBy(r, ds) {
			revisions = append(revisions, r)
		}
	}
	if hash, err := daemonset.TargetRevision(ds, revisions); err == nil && hash == expected {
		return hash
	}
	live := simapi.Get[*appsv1.DaemonSet](m.w.api, simapi.KeyOf(ds))
	if live == nil || live.UID != ds.UID {
		return ""
	}
	hash, err := daemonset.TargetRevision(live, m.w.revisionsOf(live))
	if err != nil {
		return ""
	}
	return hash
}

// goOn does the work left of a reconcile; false if the manager was killed or suspended.
func (m *simManager) goOn(p *simJobPass) bool {
	w := m.w
	for !p.stored || len(p.effects) > 0 {
		var done bool
		if fault := !w.calm && w.chance(w.knobs.faults); fault && w.chance(2) {
			done = false // rejected
		} else if p.stored {
			done = w.carryOut(m, p, p.effects[0]) && !fault
			p.effects = p.effects[1:]
		} else {
			done = w.storeRecord(m, p) && !fault
			p.stored = true
		}
		if w.killsNow() || !w.calm && w.chance(w.knobs.crash) {
			w.say("%s is killed", m.name)
			m.die()
			return false
		}
		if !done {
			p.effects = nil // the next reconcile sees why
			break
		}
		if len(p.effects) > 0 && !w.calm && w.chance(w.knobs.pause) {
			p.until = w.now.Add(w.seconds(0, 60))
			if w.chance(2) {
				m.frozen = p.until
			}
			w.say("%s sleeps until %s in %s of %s", m.name, p.until.Sub(fixture.Epoch), p.effects[0].Kind, p.node)
			return w.now.After(m.frozen)
		}
	}
	delete(m.jobs, p.node)
	return true
}

// die kills the process, with the current pass.
func (m *simManager) die() {
	if m.pass == nil {
		m.restart()
		return
	}
	m.pass.dead = true
	m.drive()
}

// storeRecord stores status.operation and status.history at the version that was seen.
func (w *simWorld) storeRecord(m *simManager, p *simJobPass) bool {
	key := simapi.Key{Kind: simUpgrades, Name: p.node}
	live := simapi.Get[*topsv1.NodeUpgrade](w.api, key)
	if live == nil || live.ResourceVersion != p.version {
		return false
	}
	if op := p.record.Operation; op != nil {
		w.say("%s: %s is %s task %s: %s %s", m.name, op.ID, cmp.Or(op.Outcome, op.Phase), op.Task, op.Reason, op.Message)
	}
	w.checkDone(p)
	simapi.Edit(w.api, key, func(u *topsv1.NodeUpgrade) {
		u.Status.Operation, u.Status.History = p.record.Operation.DeepCopy(), slices.Clone(p.record.History)
	})
	return true
}

// carryOut applies an effect to the API server: false if a precondition fails.
func (w *simWorld) carryOut(m *simManager, p *simJobPass, e operation.Effect) bool {
	h := w.host(p.node)
	switch e.Kind {
	case operation.Evict:
		w.checkEffect(p, e)
		w.checkWithoutRequest(h, p.facts.Wanted)
		w.evict(h, e.All)
		return true
	case operation.DeletePod, operation.FencePod:
		return w.touchPod(m, p, e)
	}
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(p.node))
	if e.NodeVersion == "" || e.NodeUID == "" {
		w.violate("S5: %s for %s has no precondition", e.Kind, e.Operation)
		return false
	}
	if node == nil || node.UID != e.NodeUID || node.ResourceVersion != e.NodeVersion {
		return false
	}
	w.say("%s: %s of %s for %s", m.name, e.Kind, p.node, e.Operation)
	w.checkEffect(p, e)
	was := w.opAvailable(e.Operation, p.node)
	simapi.Edit(w.api, simNodeKey(p.node), func(n *corev1.Node) { simChangeNode(n, e) })
	if e.Kind == operation.Cordon && was {
		w.opDown(e.Operation, p.node)
	}
	return true
}

// simChangeNode applies an effect to a Node object.
func simChangeNode(n *corev1.Node, e operation.Effect) {
	switch e.Kind {
	case operation.CloseDevice, operation.OpenDevice:
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == topsv1.TaintDriverUpgrade && (e.Kind == operation.CloseDevice || t.Value == e.Operation)
		})
		if e.Kind == operation.CloseDevice {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: topsv1.TaintDriverUpgrade, Value: e.Operation, Effect: corev1.TaintEffectNoSchedule})
		}
		return
	}
	simMark(n, e.Change)
}

// simMark applies the patch of a cordon.
func simMark(n *corev1.Node, c cordon.NodeChange) {
	if c.Unschedulable != nil {
		simSetUnschedulable(n, topsv1.ManagedBy, *c.Unschedulable)
	}
	if c.Mark == nil {
		return
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, topsv1.AnnotationCordonedBy, *c.Mark)
	if *c.Mark == "" {
		delete(n.Annotations, topsv1.AnnotationCordonedBy)
	}
}

// simSetUnschedulable cordons or uncordons as a field manager.
func simSetUnschedulable(n *corev1.Node, manager string, on bool) {
	n.Spec.Unschedulable = on
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:unschedulable":{}}}`)}}}
}

// touchPod deletes or fences the named pod. It rechecks a DaemonSet before deleting its pod.
func (w *simWorld) touchPod(m *simManager, p *simJobPass, e operation.Effect) bool {
	key := simapi.Named(simPods, e.Pod.Namespace, e.Pod.Name)
	pod := simapi.Get[*corev1.Pod](w.api, key)
	if e.Pod.UID == "" || e.Pod.ResourceVersion == "" {
		w.violate("S5: %s of %s for %s has no precondition", e.Kind, key, e.Operation)
		return false
	}
	if pod == nil || pod.UID != e.Pod.UID || pod.ResourceVersion != e.Pod.ResourceVersion {
		return false
	}
	w.say("%s: %s %s for %s", m.name, e.Kind, pod.Name, e.Operation)
	if e.Kind == operation.FencePod {
		simapi.Edit(w.api, key, func(p *corev1.Pod) {
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == podreplace.Fenced })
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: podreplace.Fenced, Status: corev1.ConditionTrue, Message: e.Operation})
		})
		return true
	}
	ds := simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, pod.Namespace, daemonset.Owner(pod).Name))
	if ds == nil || ds.UID != daemonset.Owner(pod).UID || ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		return false
	}
	w.checkEffect(p, e)
	w.checkDeletedByOperation(p, e, pod)
	was := w.opAvailable(e.Operation, p.node)
	if effective, err := w.api.Delete(key, nil); err != nil || !effective {
		return false
	}
	w.opTook(e.Operation, p.node, pod, was)
	return true
}

// sweep removes the marks of operations that are over, or went with a deleted NodeUpgrade, from a
// node: at once if it has no NodeUpgrade, now and then if it has another one.
func (m *simManager) sweep(node *corev1.Node) {
	if node == nil {
		return
	}
	u := simapi.Get[*topsv1.NodeUpgrade](m.w.api, simapi.Key{Kind: simUpgrades, Name: node.Name})
	if u != nil && m.w.hash("sweep", m.w.steps, node.Name)%8 > 0 {
		return
	}
	for _, id := range simMarks(node) {
		if u != nil && simLives(u.Status.Operation) && u.Status.Operation.ID == id {
			continue
		}
		m.w.say("%s: sweeps %s for %s", m.name, node.Name, id)
		facts := cordon.FactsOf(node)
		simapi.Edit(m.w.api, simNodeKey(node.Name), func(n *corev1.Node) {
			simChangeNode(n, operation.Effect{Kind: operation.OpenDevice, Operation: id})
			if facts.Mark == id {
				simMark(n, cordon.DecideUncordon(facts, id))
			}
		})
		return
	}
}
