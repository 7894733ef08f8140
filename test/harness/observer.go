package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Observer watches the pods of DaemonSets with eyes of its own: it shares no
// code with the operator. A node counts as down from the moment a pod on it is
// being deleted until every pod that was deleted there has an available
// successor. A node that is merely cut off does not count, nobody made it so.
type Observer struct {
	mu   sync.Mutex
	down map[string]map[string]bool // node -> DaemonSet -> deleted and not yet replaced
	// gone are the pods whose deletion was seen, at any time: UID -> node.
	gone map[types.UID]string
	// last is how those pods were seen last.
	last map[types.UID]*corev1.Pod
	// atReset are the nodes that were down at the last Reset, turns what came after.
	atReset []string
	turns   []turn
	deleted []types.UID
}

// turn is a node going down or coming up.
type turn struct {
	node string
	down bool
}

// Observe starts an observer of the pods a selector matches in all namespaces;
// it ends with ctx.
func Observe(ctx context.Context, c *Cluster, selector string) (*Observer, error) {
	o := &Observer{down: map[string]map[string]bool{}, gone: map[types.UID]string{}, last: map[types.UID]*corev1.Pod{}}
	return o, watchPods(ctx, c, selector, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.see(object.(*corev1.Pod), false) },
		UpdateFunc: func(_, object any) { o.see(object.(*corev1.Pod), false) },
		DeleteFunc: deleted(o.see),
	})
}

// watchPods hands the pods a selector matches in all namespaces to a handler, and
// returns when it has those that are there; it ends with ctx.
func watchPods(ctx context.Context, c *Cluster, selector string, handler cache.ResourceEventHandler) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) { l.LabelSelector = selector }))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return nil
}

// deleted is a handler of pods that are gone.
func deleted(see func(pod *corev1.Pod, gone bool)) func(any) {
	return func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			see(pod, true)
		}
	}
}

func (o *Observer) see(pod *corev1.Pod, gone bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	node, sets := pod.Spec.NodeName, o.down[pod.Spec.NodeName]
	if sets == nil {
		sets = map[string]bool{}
		o.down[node] = sets
	}
	wasDown, key := len(sets) > 0, pod.Namespace+"/"+owner.Name
	switch {
	case gone || pod.DeletionTimestamp != nil:
		o.last[pod.UID] = pod
		// Once: a pod whose containers have ended may have a successor before it is gone.
		if _, known := o.gone[pod.UID]; !known {
			sets[key] = true
			o.gone[pod.UID] = node
			o.deleted = append(o.deleted, pod.UID)
		}
	case isReady(pod):
		delete(sets, key)
	}
	if isDown := len(sets) > 0; isDown != wasDown {
		o.turns = append(o.turns, turn{node, isDown})
	}
}

// Most returns the largest number of nodes that were down at once since the
// last Reset.
func (o *Observer) Most() int { return o.most(func(string) bool { return true }) }

// MostOf returns the same, counting only some nodes.
func (o *Observer) MostOf(nodes ...string) int {
	return o.most(func(node string) bool { return slices.Contains(nodes, node) })
}

func (o *Observer) most(counts func(node string) bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := 0
	for _, node := range o.atReset {
		if counts(node) {
			now++
		}
	}
	most := now
	for _, t := range o.turns {
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

// Replaced returns how many pods were deleted since the last Reset.
func (o *Observer) Replaced() int { return len(o.Deleted()) }

// Deleted returns the pods that were deleted since the last Reset, with the
// node of each.
func (o *Observer) Deleted() map[types.UID]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	deleted := make(map[types.UID]string, len(o.deleted))
	for _, uid := range o.deleted {
		deleted[uid] = o.gone[uid]
	}
	return deleted
}

// Last returns a pod whose deletion was seen, as it was seen last; nil for another one.
// It is not to be changed.
func (o *Observer) Last(uid types.UID) *corev1.Pod {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last[uid]
}

// Reset starts counting anew.
func (o *Observer) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.atReset, o.turns, o.deleted = nil, nil, nil
	for node, sets := range o.down {
		if len(sets) > 0 {
			o.atReset = append(o.atReset, node)
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
