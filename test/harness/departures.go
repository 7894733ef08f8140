package harness

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Departure is a pod whose deletion was observed.
type Departure struct {
	Node string
	// Pod is namespace/name; DaemonSet is its owner's name, "" for none.
	Pod, DaemonSet string
}

// Departures records which pods are deleted, in which order. It shares no code with the
// operator.
type Departures struct {
	mu   sync.Mutex
	seen map[types.UID]bool
	list []Departure
}

// WatchDepartures watches all pods until ctx ends.
func WatchDepartures(ctx context.Context, c *Cluster) (*Departures, error) {
	d := &Departures{seen: map[types.UID]bool{}}
	err := watchPods(ctx, c, "", d.see)
	d.Take() // pods that were already being deleted
	return d, err
}

func (d *Departures) see(pod *corev1.Pod, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !gone && pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || d.seen[pod.UID] {
		return
	}
	d.seen[pod.UID] = true
	left := Departure{Node: pod.Spec.NodeName, Pod: pod.Namespace + "/" + pod.Name}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		left.DaemonSet = owner.Name
	}
	d.list = append(d.list, left)
}

// Take returns the departures since the last call, in order.
func (d *Departures) Take() []Departure {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := slices.Clone(d.list)
	d.list = nil
	return list
}
