package harness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Observer watches the pods of DaemonSets. It shares no code with the operator. A node
// counts as down from the deletion of a pod on it until every pod deleted there has an
// available replacement, which has been Ready for the minReadySeconds of its DaemonSet.
// A node that is only offline does not count, because no deletion caused it.
type Observer struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// minReady is the minReadySeconds of DaemonSets that set it, by namespace/name.
	minReady map[string]time.Duration
	// live are the pods without a deletionTimestamp.
	live map[place]*corev1.Pod
	// down are the places whose pod was deleted and has no available replacement, by node.
	down map[string]map[place]bool
	// gone are all pods whose deletion was ever observed: UID -> node.
	gone map[types.UID]string
	// last is the last observed state of those pods.
	last map[types.UID]*corev1.Pod
	// left are nodes that have left the cluster.
	left map[string]bool
	// settled is when availability was last evaluated.
	settled time.Time
	// atReset is what was down at the last Reset, turns the changes since.
	atReset []turn
	turns   []turn
	deleted []types.UID
}

// place is a DaemonSet, namespace/name, on a node.
type place struct{ node, daemonSet string }

// turn is a node going down or coming up.
type turn struct {
	node string
	down bool
	at   time.Time
}

// Outage is a period during which a node was down.
type Outage struct {
	Node string
	From time.Time
	// To is zero if it is still down.
	To time.Time
}

// NewObserver returns an observer that is fed by See and SeeDaemonSet.
func NewObserver(clock clock.PassiveClock) *Observer {
	return &Observer{clock: clock, settled: clock.Now(), minReady: map[string]time.Duration{}, live: map[place]*corev1.Pod{},
		down: map[string]map[place]bool{}, gone: map[types.UID]string{}, last: map[types.UID]*corev1.Pod{}, left: map[string]bool{}}
}

// Observe observes the pods that match a selector in all namespaces until ctx ends. It
// passes events on to others.
func Observe(ctx context.Context, c *Cluster, selector string, others ...func(pod *corev1.Pod, gone bool)) (*Observer, error) {
	o := NewObserver(clock.RealClock{})
	if err := watchDaemonSets(ctx, c, o.SeeDaemonSet); err != nil {
		return nil, err
	}
	return o, watchPods(ctx, c, selector, func(pod *corev1.Pod, gone bool) {
		o.See(pod, gone)
		for _, see := range others {
			see(pod, gone)
		}
	})
}

// watchDaemonSets calls see for all DaemonSets until ctx ends, and returns after the
// initial list.
func watchDaemonSets(ctx context.Context, c *Cluster, see func(*appsv1.DaemonSet)) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	informer := informers.NewSharedInformerFactory(clientset, 0).Apps().V1().DaemonSets().Informer()
	return runInformer(ctx, informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { see(object.(*appsv1.DaemonSet)) },
		UpdateFunc: func(_, object any) { see(object.(*appsv1.DaemonSet)) },
	})
}

// WatchNodes calls see for the nodes, whenever one changes, until ctx ends, and returns after the
// initial list.
func WatchNodes(ctx context.Context, c *Cluster, see func(*corev1.Node)) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	informer := informers.NewSharedInformerFactory(clientset, 0).Core().V1().Nodes().Informer()
	return runInformer(ctx, informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { see(object.(*corev1.Node)) },
		UpdateFunc: func(_, object any) { see(object.(*corev1.Node)) },
	})
}

// watchPods calls see for the pods that match a selector in all namespaces until ctx
// ends, and returns after the initial list.
func watchPods(ctx context.Context, c *Cluster, selector string, see func(pod *corev1.Pod, gone bool)) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) { l.LabelSelector = selector }))
	return runInformer(ctx, factory.Core().V1().Pods().Informer(), podHandler(see))
}

// podHandler handles pod events.
func podHandler(see func(pod *corev1.Pod, gone bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { see(object.(*corev1.Pod), false) },
		UpdateFunc: func(_, object any) { see(object.(*corev1.Pod), false) },
		DeleteFunc: func(object any) {
			// The pod was deleted while the watch was interrupted.
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			see(object.(*corev1.Pod), true)
		},
	}
}

// runInformer runs an informer until ctx ends, and returns when it has synced.
func runInformer(ctx context.Context, informer cache.SharedInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("watching: %w", ctx.Err())
	}
	return nil
}

// SeeDaemonSet records the minReadySeconds of a DaemonSet.
func (o *Observer) SeeDaemonSet(ds *appsv1.DaemonSet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle()
	o.minReady[ds.Namespace+"/"+ds.Name] = time.Duration(ds.Spec.MinReadySeconds) * time.Second
	o.settle()
}

// See records the state of a pod, or that it is gone.
func (o *Observer) See(pod *corev1.Pod, gone bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle()
	if o.left[pod.Spec.NodeName] {
		return
	}
	at := place{node: pod.Spec.NodeName, daemonSet: pod.Namespace + "/" + owner.Name}
	if !gone && pod.DeletionTimestamp == nil {
		o.live[at] = pod
	} else {
		o.seeDeleted(at, pod)
	}
	o.settle()
}

// SeeNodeLeave ends the outage of a node that leaves the cluster: nothing replaces its pods, and
// nobody misses them.
func (o *Observer) SeeNodeLeave(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle()
	if len(o.down[node]) > 0 {
		o.turns = append(o.turns, turn{node, false, o.settled})
	}
	delete(o.down, node)
	o.left[node] = true
}

// seeDeleted counts the deletion of a pod once: a pod whose containers have exited may
// have a replacement before it is gone.
func (o *Observer) seeDeleted(at place, pod *corev1.Pod) {
	o.last[pod.UID] = pod
	if o.live[at] != nil && o.live[at].UID == pod.UID {
		delete(o.live, at)
	}
	if _, known := o.gone[pod.UID]; known {
		return
	}
	o.gone[pod.UID] = at.node
	o.deleted = append(o.deleted, pod.UID)
	if o.down[at.node] == nil {
		o.down[at.node] = map[place]bool{}
	}
	if len(o.down[at.node]) == 0 {
		o.turns = append(o.turns, turn{at.node, true, o.settled})
	}
	o.down[at.node][at] = true
}

// settle marks the nodes as up whose pods have become available.
func (o *Observer) settle() {
	now := o.clock.Now()
	var up []turn
	for node, places := range o.down {
		wasDown, since := len(places) > 0, time.Time{}
		for at := range places {
			available, ok := o.availableSince(at)
			if !ok || available.After(now) {
				continue
			}
			if available.After(since) {
				since = available
			}
			delete(places, at)
		}
		if wasDown && len(places) == 0 {
			if since.Before(o.settled) {
				since = o.settled
			}
			up = append(up, turn{node, false, since})
		}
	}
	slices.SortFunc(up, func(a, b turn) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.node, b.node)) })
	o.turns = append(o.turns, up...)
	o.settled = now
}

// availableSince returns when the pod at a place became or will become available; false
// if it is not Ready.
func (o *Observer) availableSince(at place) (time.Time, bool) {
	pod := o.live[at]
	if pod == nil {
		return time.Time{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Add(o.minReady[at.daemonSet]), c.Status == corev1.ConditionTrue
		}
	}
	return time.Time{}, false
}

// Outages returns the outages since the last Reset, ordered by start; some may have
// started before it.
func (o *Observer) Outages() []Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle()
	var outages []Outage
	open := map[string]int{}
	for _, t := range slices.Concat(o.atReset, o.turns) {
		if t.down {
			open[t.node] = len(outages)
			outages = append(outages, Outage{Node: t.node, From: t.at})
		} else {
			outages[open[t.node]].To = t.at
		}
	}
	return outages
}

// Most returns the largest number of nodes that were down at once since the
// last Reset.
func (o *Observer) Most() int { return o.most(func(string) bool { return true }) }

// MostOf is like Most for the given nodes only.
func (o *Observer) MostOf(nodes ...string) int {
	return o.most(func(node string) bool { return slices.Contains(nodes, node) })
}

func (o *Observer) most(counts func(node string) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, most := 0, 0
	for _, t := range slices.Concat(o.atReset, o.turns) {
		switch {
		case !counts(t.node):
		case t.down:
			now++
			most = max(most, now)
		default:
			now--
		}
	}
	return most
}

// Replaced returns the number of pods deleted since the last Reset.
func (o *Observer) Replaced() int { return len(o.Deleted()) }

// Deleted returns the pods deleted since the last Reset and their nodes.
func (o *Observer) Deleted() map[types.UID]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	deleted := make(map[types.UID]string, len(o.deleted))
	for _, uid := range o.deleted {
		deleted[uid] = o.gone[uid]
	}
	return deleted
}

// Last returns the last observed state of a deleted pod; nil if its deletion was not
// observed. The caller must not change it.
func (o *Observer) Last(uid types.UID) *corev1.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last[uid]
}

// Reset restarts counting.
func (o *Observer) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle()
	open := map[string]turn{}
	for _, t := range slices.Concat(o.atReset, o.turns) {
		if t.down {
			open[t.node] = t
		} else {
			delete(open, t.node)
		}
	}
	o.atReset, o.turns, o.deleted = nil, nil, nil
	for _, t := range open {
		o.atReset = append(o.atReset, t)
	}
	slices.SortFunc(o.atReset, func(a, b turn) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.node, b.node)) })
}
