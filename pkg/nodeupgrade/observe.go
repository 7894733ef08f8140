package nodeupgrade

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/ownership"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=daemonsets;controllerrevisions,verbs=get;list;watch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get

// nodeOfPod is the cache index of pods by node. The API server supports the same field
// selector.
const nodeOfPod = "spec.nodeName"

// observation is what one pass reads about a node.
type observation struct {
	// upgrade and node are read live; node is nil when it does not exist.
	upgrade *topsv1.NodeUpgrade
	node    *corev1.Node
	// pods are those of DaemonSets on the node.
	pods []*corev1.Pod
	// daemonSets are the members as read, by UID.
	daemonSets map[types.UID]*appsv1.DaemonSet
	// policy is the drain policy, and policyErr what is wrong with it.
	policy    eviction.Policy
	policyErr error
	facts     operation.Facts
	seen      *daemonset.StateTimes
}

// observer reads the facts of a decision.
type observer struct {
	// cache is the manager's; live reads past it.
	cache      client.Reader
	live       client.Reader
	ownership  ownership.Reader
	machine    *operation.Machine
	evictions  *evictions
	stateTimes *daemonset.StateTimes
	workTimes  *workTimes
	denials    *denials
	clock      func() time.Time
}

// observe reads the state of one node: the Node first and then the record, so that the record
// is never older than the Node. The error is NotFound when there is no NodeUpgrade.
func (r observer) observe(ctx context.Context, name string) (*observation, error) {
	o := &observation{upgrade: &topsv1.NodeUpgrade{}, daemonSets: map[types.UID]*appsv1.DaemonSet{}, seen: r.stateTimes}
	key := client.ObjectKey{Name: name}
	node := &corev1.Node{}
	if err := r.live.Get(ctx, key, node); err == nil {
		o.node = node
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	if err := r.live.Get(ctx, key, o.upgrade); err != nil {
		return nil, fmt.Errorf("reading NodeUpgrade %s: %w", name, err)
	}
	u := o.upgrade
	o.facts = operation.Facts{
		Now: r.clock(), Wanted: u.Spec.Operation, Override: u.Annotations[topsv1.AnnotationTaskOverride], Host: u.Status.Host,
		Record: operation.Record{Operation: u.Status.Operation, History: u.Status.History},
		Node:   operation.Node{Name: name},
	}
	o.facts.WorkedSince = r.workTimes.expected(name, o.facts.Now)
	o.facts.HostSince = operation.HostSince(u, o.seen, o.facts.Now)
	if err := r.readNode(ctx, o); err != nil {
		return nil, err
	}
	if err := r.readMembers(ctx, o); err != nil {
		return nil, err
	}
	if err := r.readDrained(ctx, o); err != nil {
		return nil, err
	}
	o.facts.Denied = r.denials.of(name)
	r.workTimes.since(name, o.facts.Now)
	return o, nil
}

// readDrained checks whether the node is empty, and who uses its cards, if the decision needs it.
func (r observer) readDrained(ctx context.Context, o *observation) (err error) {
	if operation.NeedsStayingPods(o.facts) && o.policyErr == nil {
		if o.facts.StayingPods, err = r.evictions.staying(ctx, o.facts, o.policy); err != nil {
			return err
		}
	}
	if operation.NeedsCardUsers(o.facts) {
		if o.facts.CardUsers, err = r.evictions.users(ctx, o.facts, o.policy); err != nil {
			return err
		}
	}
	switch {
	case !operation.NeedsDrained(o.facts):
	case o.policyErr != nil:
		o.facts.Drained = operation.Drained{Stuck: true, Message: o.policyErr.Error()}
	default:
		o.facts.Drained, err = r.evictions.drained(ctx, o.facts, o.policy)
	}
	return err
}

// readNode derives the drain policy and the facts about the Node.
func (r observer) readNode(ctx context.Context, o *observation) error {
	var spec *topsv1.DrainPolicy
	if o.facts.Wanted != nil {
		spec = o.facts.Wanted.Drain
	}
	o.policy, o.policyErr = eviction.PolicyOf(spec)
	if o.node == nil {
		return nil
	}
	o.facts.Node = operation.NodeOf(o.node, o.policy.Accelerates, o.seen, o.facts.Now)
	if op := o.facts.Operation; op == nil || op.Phase != topsv1.OperationRunning || op.Touched {
		return nil // other upgraders matter only before the node is touched
	}
	var lease *coordinationv1.Lease
	found := &coordinationv1.Lease{}
	err := r.live.Get(ctx, operation.LeaseOf(o.node.Name), found)
	if denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Lease of node %s: %w", o.node.Name, err)
	}
	if err == nil {
		lease = found
	}
	o.facts.Node.OtherUpgrader = operation.OtherUpgrader(o.node, lease, o.seen, o.facts.Now)
	return nil
}

// readMembers reads the DaemonSets of the operation and their pods. While the node has the driver-upgrade taint it
// reads them live: the cache may lack a pod that came before and uses the device, or its DaemonSet, or
// the gr that controls that (invariant S8).
func (r observer) readMembers(ctx context.Context, o *observation) error {
	if op := o.facts.Operation; op != nil && o.facts.Node.Taint == op.ID {
		// The API server does not know to which node an unscheduled pod belongs.
		if err := r.readPods(ctx, o, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }); err != nil {
			return err
		}
		r.cache, r.ownership.Reader = r.live, r.live
	}
	if err := r.readPods(ctx, o, func(*corev1.Pod) bool { return true }); err != nil {
		return err
	}
	if err := r.readTargets(ctx, o); err != nil {
		return err
	}
	if err := r.readOwn(ctx, o); err != nil {
		return err
	}
	return r.readNamed(ctx, o)
}

// readPods reads pods of DaemonSets on the node.
func (r observer) readPods(ctx context.Context, o *observation, which func(*corev1.Pod) bool) error {
	var pods corev1.PodList
	if err := r.cache.List(ctx, &pods, client.MatchingFields{nodeOfPod: o.upgrade.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing pods of node %s: %w", o.upgrade.Name, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; daemonset.Owner(pod) != nil && which(pod) {
			o.pods = append(o.pods, pod)
		}
	}
	return nil
}

// readTargets reads the targets of the wanted operation.
func (r observer) readTargets(ctx context.Context, o *observation) error {
	if o.facts.Wanted == nil {
		return nil
	}
	for i := range o.facts.Wanted.Targets {
		target := &o.facts.Wanted.Targets[i]
		for _, of := range target.AllNewest() {
			if err := r.readTarget(ctx, o, target.Component, of); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r observer) readTarget(ctx context.Context, o *observation, component string, of topsv1.DaemonSetRevision) error {
	ds := &appsv1.DaemonSet{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: of.DaemonSet.Namespace, Name: of.DaemonSet.Name}, ds)
	if denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting DaemonSet %s/%s: %w", of.DaemonSet.Namespace, of.DaemonSet.Name, err)
	}
	if err != nil || ds.UID != of.DaemonSet.UID {
		return nil // the Machine waits for it
	}
	newest, err := r.newest(ctx, ds, of.Revision)
	if err != nil {
		return err
	}
	o.add(component, ds, newest)
	return nil
}

// newest returns the hash of the newest revision of a DaemonSet, "" when it is not known yet.
// If the cache does not have the expected one it may be stale, so the API server is read.
func (r observer) newest(ctx context.Context, ds *appsv1.DaemonSet, expected string) (string, error) {
	cached, err := newestOf(ctx, r.cache, ds)
	if err != nil || cached == expected {
		return cached, err
	}
	fresh := &appsv1.DaemonSet{}
	err = r.live.Get(ctx, client.ObjectKeyFromObject(ds), fresh)
	if apierrors.IsNotFound(err) || err == nil && fresh.UID != ds.UID {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading DaemonSet %s: %w", client.ObjectKeyFromObject(ds), err)
	}
	return newestOf(ctx, r.live, fresh)
}

func newestOf(ctx context.Context, from client.Reader, ds *appsv1.DaemonSet) (string, error) {
	var list appsv1.ControllerRevisionList
	if err := ownership.ListSelected(ctx, from, &list, ds, client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	revisions := make([]*appsv1.ControllerRevision, len(list.Items))
	for i := range list.Items {
		revisions[i] = &list.Items[i]
	}
	return newestIn(ds, revisions), nil
}

// newestIn returns the hash of the newest of these revisions of a DaemonSet, "" when it is not known yet.
func newestIn(ds *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision) string {
	hash, err := daemonset.TargetRevision(ds, revisions)
	if err != nil {
		return ""
	}
	return hash
}

// readOwn reads the operator's own DaemonSets: the drain leaves their pods, those whose pods use the
// device of the node are members, and the device plugin may offer cards under names of the user, or have.
func (r observer) readOwn(ctx context.Context, o *observation) error {
	sets, err := r.ownership.DaemonSets(ctx, r.cache)
	if err != nil {
		return err
	}
	held, kept, err := r.ownership.HeldResources(ctx, sets)
	if err != nil {
		return err
	}
	for _, ds := range sets {
		component := daemonset.Component(ds)
		if _, target := o.daemonSets[ds.UID]; target || !r.machine.Uses(component) {
			continue
		}
		o.add(component, ds, newestIn(ds, kept[ds.UID]))
	}
	if offered := ownership.FurtherResources(sets); o.node != nil && len(offered) > 0 { // one that it no longer offers is not missing
		o.facts.Node.Offer(o.node, o.policy.WithResources(offered).Accelerates)
	}
	o.policy = o.policy.WithOwn(ownership.UIDs(sets, r.machine.Components())).WithResources(held)
	return nil
}

// readNamed adds the pods that are named in the record and belong to no member. A pod missing
// from the cache is read live only when the operation ends.
func (r observer) readNamed(ctx context.Context, o *observation) error {
	op, wanted := o.facts.Operation, o.facts.Wanted
	if operation.Over(op) {
		return nil
	}
	ends := op.Phase == topsv1.OperationReleasing || wanted == nil || wanted.ID != op.ID || wanted.Abort
	for _, named := range operation.Named(op) {
		if o.shows(named.UID) {
			continue
		}
		pod := o.pod(named.UID)
		if pod == nil && ends {
			var err error
			if pod, err = r.podAsNamed(ctx, named); err != nil {
				return err
			}
		}
		if pod == nil {
			continue
		}
		if owner := daemonset.Owner(pod); owner != nil {
			ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID}}
			o.facts.Members = append(o.facts.Members, operation.MemberOf("", ds, "", nil, []*corev1.Pod{pod}, o.seen, o.facts.Now))
		}
	}
	return nil
}

// podAsNamed reads a recorded pod live, nil when it is gone.
func (r observer) podAsNamed(ctx context.Context, named topsv1.NamedPod) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: named.Namespace, Name: named.Name}, pod)
	if denial.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Pod %s/%s: %w", named.Namespace, named.Name, err)
	}
	if err != nil || pod.UID != named.UID {
		return nil, nil
	}
	return pod, nil
}

// add adds a member.
func (o *observation) add(component string, ds *appsv1.DaemonSet, newest string) {
	o.daemonSets[ds.UID] = ds
	m := operation.MemberOf(component, ds, newest, o.node, o.pods, o.seen, o.facts.Now)
	if m.Pod != nil && o.node != nil {
		m.Pod.NoCards = operation.HasNoCards(o.upgrade, o.node, component, o.pod(m.Pod.UID), o.facts.Now)
	}
	o.facts.Members = append(o.facts.Members, m)
}

// shows reports whether a pod belongs to a member.
func (o *observation) shows(uid types.UID) bool {
	for i := range o.facts.Members {
		if pod := o.facts.Members[i].Pod; pod != nil && pod.UID == uid {
			return true
		}
	}
	return false
}

// pod returns a DaemonSet pod of the node, nil when there is none with this UID.
func (o *observation) pod(uid types.UID) *corev1.Pod {
	for _, pod := range o.pods {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}
