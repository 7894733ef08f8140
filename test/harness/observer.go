package harness

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Observer watches the pods of DaemonSets with eyes of its own: it shares no
// code with the operator. A node counts as down from the moment a pod on it is
// being deleted until every pod that was deleted there has an available
// successor. A node that is merely cut off does not count, nobody made it so.
type Observer struct {
	mu    sync.Mutex
	down  map[string]map[string]bool // node -> DaemonSet -> deleted and not yet replaced
	most  int
	total int
}

// Observe starts an observer of the pods a selector matches in all namespaces;
// it ends with ctx.
func Observe(ctx context.Context, c *Cluster, selector string) (*Observer, error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	o := &Observer{down: map[string]map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) { l.LabelSelector = selector }))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.see(object.(*corev1.Pod), false) },
		UpdateFunc: func(_, object any) { o.see(object.(*corev1.Pod), false) },
		DeleteFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				o.see(pod, true)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return o, nil
}

func (o *Observer) see(pod *corev1.Pod, gone bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	sets := o.down[pod.Spec.NodeName]
	if sets == nil {
		sets = map[string]bool{}
		o.down[pod.Spec.NodeName] = sets
	}
	key := pod.Namespace + "/" + owner.Name
	switch {
	case gone || pod.DeletionTimestamp != nil:
		if !sets[key] {
			o.total++
		}
		sets[key] = true
	case isReady(pod):
		delete(sets, key)
	}
	o.most = max(o.most, o.count())
}

func (o *Observer) count() int {
	n := 0
	for _, sets := range o.down {
		if len(sets) > 0 {
			n++
		}
	}
	return n
}

// Most returns the largest number of nodes that were down at once since the
// last Reset.
func (o *Observer) Most() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.most
}

// Replaced returns how many pods were deleted since the last Reset.
func (o *Observer) Replaced() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// Reset starts counting anew.
func (o *Observer) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.most, o.total = o.count(), 0
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
