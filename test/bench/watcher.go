package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/topsops/gcu-operator/test/harness"
)

// watcher watches the pods of DaemonSets with eyes of its own, sharing no code
// with the operator. A node is down for a DaemonSet from the moment its pod is
// being deleted until a successor is Ready. A node that is merely cut off is not
// down: nobody made it so.
type watcher struct {
	mu     sync.Mutex
	fleets map[string]*fleet
}

// fleet is what was seen of one DaemonSet since begin.
type fleet struct {
	// version is the one to reach, want the number of nodes to reach it.
	version string
	want    int
	began   time.Time
	reached chan struct{}

	pods   map[string]podSeen   // node -> the newest pod
	down   map[string]time.Time // node -> when its pod was deleted
	atGoal map[string]bool      // nodes with a Ready pod of the version
	seen   sighting
	last   time.Time
}

type podSeen struct {
	uid     string
	version string
	ready   bool
	ending  bool
}

// sighting is what the watcher counted.
type sighting struct {
	// done is how long it took until every wanted node was at the version.
	done time.Duration
	// updated is the number of nodes at the version, deleted that of deletions.
	updated, deleted int
	// most is the largest number of nodes down at once, mean the average over time.
	most int
	mean float64
	// restart is the mean time from the deletion of a pod to the next one being Ready.
	restart time.Duration

	nodeSeconds float64
	restarts    int
	restartSum  time.Duration
}

// watchPods starts a watcher of the pods of a namespace; it ends with ctx.
func watchPods(ctx context.Context, c *harness.Cluster, namespace string) (*watcher, error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	w := &watcher{fleets: map[string]*fleet{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.see(object.(*corev1.Pod), false) },
		UpdateFunc: func(_, object any) { w.see(object.(*corev1.Pod), false) },
		DeleteFunc: func(object any) {
			if pod, ok := object.(*corev1.Pod); ok {
				w.see(pod, true)
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
	return w, nil
}

// begin starts counting anew for a DaemonSet that is to reach a version on want
// nodes. The channel is closed when it has.
func (w *watcher) begin(daemonSet, version string, want int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fleet(daemonSet)
	now := time.Now()
	f.version, f.want, f.began, f.last = version, want, now, now
	f.reached, f.atGoal = make(chan struct{}), map[string]bool{}
	f.seen = sighting{most: len(f.down)}
	for node, pod := range f.pods {
		f.judge(node, pod, now)
	}
	return f.reached
}

// result returns what was counted since begin.
func (w *watcher) result(daemonSet string) sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fleet(daemonSet)
	s := f.seen
	s.updated = len(f.atGoal)
	span := s.done
	if span == 0 {
		span = time.Since(f.began)
	}
	s.mean = s.nodeSeconds / span.Seconds()
	if s.restarts > 0 {
		s.restart = s.restartSum / time.Duration(s.restarts)
	}
	return s
}

func (w *watcher) fleet(daemonSet string) *fleet {
	f := w.fleets[daemonSet]
	if f == nil {
		f = &fleet{pods: map[string]podSeen{}, down: map[string]time.Time{}, atGoal: map[string]bool{}}
		w.fleets[daemonSet] = f
	}
	return f
}

func (w *watcher) see(pod *corev1.Pod, gone bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "DaemonSet" || pod.Spec.NodeName == "" {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fleet(owner.Name).see(pod, gone, now)
}

func (f *fleet) see(pod *corev1.Pod, gone bool, now time.Time) {
	node, seen := pod.Spec.NodeName, podSeen{
		uid: string(pod.UID), version: pod.Labels[versionLabel], ready: isReady(pod),
		ending: gone || pod.DeletionTimestamp != nil,
	}
	if other, known := f.pods[node]; known && other.uid != seen.uid && seen.ending {
		return // the end of a pod whose successor was seen already
	}
	f.advance(now)
	f.pods[node] = seen
	f.judge(node, seen, now)
	f.seen.most = max(f.seen.most, len(f.down))
}

// judge notes what follows for a node from its newest pod.
func (f *fleet) judge(node string, pod podSeen, now time.Time) {
	deleted, isDown := f.down[node]
	switch {
	case pod.ending && !isDown:
		f.down[node] = now
		f.seen.deleted++
	case !pod.ending && pod.ready && isDown:
		delete(f.down, node)
		f.seen.restarts++
		f.seen.restartSum += now.Sub(deleted)
	}
	if pod.ending || !pod.ready || pod.version != f.version {
		delete(f.atGoal, node)
		return
	}
	f.atGoal[node] = true
	if f.reached != nil && f.seen.done == 0 && len(f.atGoal) >= f.want {
		f.seen.done = max(now.Sub(f.began), time.Millisecond)
		close(f.reached)
	}
}

// advance adds the time that passed with the nodes now down.
func (f *fleet) advance(now time.Time) {
	if !f.last.IsZero() && f.seen.done == 0 {
		f.seen.nodeSeconds += float64(len(f.down)) * now.Sub(f.last).Seconds()
	}
	f.last = now
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
