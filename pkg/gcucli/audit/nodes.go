package audit

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// Work is one piece of work on a node: an operation, or the replacement of a pod.
type Work struct {
	Node string `json:"node"`
	// What was done: the id of an operation, the name of a requested task, or the DaemonSet of a new pod.
	What  string    `json:"what"`
	Began time.Time `json:"began"`
	// Ended is absent while it runs.
	Ended *time.Time `json:"ended,omitempty"`
	// Result is the phase of the operation, the state of the task, or Done.
	Result  string `json:"result"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// RequestTime is when it was asked for on the node, under OTA.
	RequestTime *time.Time `json:"requestTime,omitempty"`
	// Tasks of an operation by their outcome.
	Tasks *topsv1.OperationResult `json:"tasks,omitempty"`
}

// Seconds that it took until now, if it runs.
func (w *Work) seconds(now time.Time) int64 {
	if w.Ended != nil {
		now = *w.Ended
	}
	return int64(now.Sub(w.Began).Seconds())
}

// failed reports whether it did not succeed.
func (w *Work) failed() bool {
	return w.Result == string(topsv1.OperationFailed) || w.Result == string(topsv1.OperationQuarantined) || w.Result == string(topsv1.TaskFailed)
}

// workOf returns the work of an upgrade on all nodes, by its beginning.
func workOf(f *display.Fleet, u *Upgrade) []Work {
	list, worked, own := []Work{}, map[string]bool{}, map[topsv1.NamespacedRef]bool{}
	for i := range f.DaemonSets {
		own[topsv1.NamespacedRef{Namespace: f.DaemonSets[i].Namespace, Name: f.DaemonSets[i].Name}] = true
	}
	for i := range f.NodeUpgrades {
		n := &f.NodeUpgrades[i]
		found := slices.Concat(operationsOn(n, u), requestsOn(n, u, own))
		worked[n.Name] = len(found) > 0
		list = append(list, found...)
	}
	for _, w := range replacements(f, u) {
		if !worked[w.Node] {
			list = append(list, w)
		}
	}
	slices.SortStableFunc(list, func(a, b Work) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Node, b.Node), cmp.Compare(a.What, b.What))
	})
	return list
}

// operationsOn returns the operations on a node that are kept, and the present one.
func operationsOn(n *topsv1.NodeUpgrade, u *Upgrade) []Work {
	var list []Work
	kept := map[string]bool{}
	for i := range n.Status.History {
		h := &n.Status.History[i]
		if h.Revision != u.Revision || !u.includes(h.StartTime.Time) {
			continue
		}
		kept[h.ID] = true
		list = append(list, Work{Node: n.Name, What: h.ID, Began: h.StartTime.UTC(), Ended: utc(&h.EndTime), Result: string(h.Phase), Reason: h.Reason,
			Message: h.Message, Tasks: &h.Result})
	}
	if o := n.Status.Operation; o != nil && !kept[o.ID] && o.Revision == u.Revision && u.includes(o.StartTime.Time) {
		list = append(list, Work{Node: n.Name, What: o.ID, Began: o.StartTime.UTC(), Ended: utc(o.EndTime), Result: string(o.Phase), Reason: o.Reason, Message: o.Message})
	}
	return list
}

// requestsOn returns what was asked for on the node, of the gr's own DaemonSets, and started. A task
// whose request the agent keeps no longer is left out: it may be about any DaemonSet.
func requestsOn(n *topsv1.NodeUpgrade, u *Upgrade, own map[topsv1.NamespacedRef]bool) []Work {
	var list []Work
	for i := range n.Status.Tasks {
		t := &n.Status.Tasks[i]
		if t.StartTime == nil || !u.includes(t.StartTime.Time) {
			continue
		}
		for j := range n.Status.Requests {
			q := &n.Status.Requests[j]
			if q.ID == t.RequestID && own[topsv1.NamespacedRef{Namespace: q.DaemonSet.Namespace, Name: q.DaemonSet.Name}] {
				list = append(list, Work{Node: n.Name, What: t.Name, RequestTime: utc(&q.RequestTime), Began: t.StartTime.UTC(), Ended: utc(t.EndTime), Result: string(t.State), Reason: t.Reason, Message: t.Message})
			}
		}
	}
	return list
}

// replacements returns the pods at the newest revisions that were created in the upgrade and are available.
func replacements(f *display.Fleet, u *Upgrade) []Work {
	if f.Rollout == nil || f.Rollout.Status.Revision != u.Revision || !u.Until.IsZero() {
		return nil // these pods were replaced since
	}
	targets := map[string]string{}
	for _, t := range f.Rollout.Status.Targets {
		targets[t.DaemonSet] = t.Hash
	}
	var list []Work
	for i := range f.Pods {
		pod := &f.Pods[i]
		owner := daemonset.Owner(pod)
		if owner == nil {
			continue
		}
		set := pod.Namespace + "/" + owner.Name
		if targets[set] == "" || daemonset.RevisionHash(pod) != targets[set] || !u.includes(pod.CreationTimestamp.Time) {
			continue
		}
		w := Work{Node: daemonset.NodeName(pod), What: set, Began: pod.CreationTimestamp.UTC(), Result: string(topsv1.TaskRunning)}
		for j := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[j]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				w.Ended, w.Result = utc(&c.LastTransitionTime), string(topsv1.TaskDone)
			}
		}
		list = append(list, w)
	}
	return list
}

func utc(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	at := t.UTC()
	return &at
}
