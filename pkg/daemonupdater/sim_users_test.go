package daemonupdater

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// The pods of users, in a seed with operations. They belong to a ReplicaSet, and some use cards.

const (
	// simUsers is their namespace.
	simUsers   = "users"
	simBudgets = "PodDisruptionBudget"
	// simOn is their label with the name of the node.
	simOn = "on"
)

// setPods returns the pods of DaemonSets.
func (w *simWorld) setPods() []*corev1.Pod {
	return slices.DeleteFunc(simapi.All[*corev1.Pod](w.api, simPods), func(p *corev1.Pod) bool { return p.Namespace == simUsers })
}

// usersOn returns the pods of users on a node.
func (w *simWorld) usersOn(node string) []*corev1.Pod {
	return slices.DeleteFunc(simapi.All[*corev1.Pod](w.api, simPods), func(p *corev1.Pod) bool {
		return p.Namespace != simUsers || p.Spec.NodeName != node
	})
}

func simUsesCards(pod *corev1.Pod) bool { return len(pod.Spec.Containers[0].Resources.Requests) > 0 }

// left counts the pods on a host that a drain has to remove.
func (w *simWorld) left(h *simHost, all bool) int {
	return len(slices.DeleteFunc(w.usersOn(h.name), func(p *corev1.Pod) bool { return !all && !simUsesCards(p) }))
}

// runUsers acts as the scheduler and the kubelet: pods of users end once they are deleted, and
// some by themselves.
func (w *simWorld) runUsers(h *simHost) {
	node := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name))
	users := w.usersOn(h.name)
	if !h.up && node != nil {
		return
	}
	n := 0
	for _, pod := range users {
		life := 30 + w.hash("life", pod.UID)%870
		ends := pod.CreationTimestamp.Add(time.Duration(life) * time.Second)
		if life%3 > 0 {
			ends = w.now.Add(time.Hour)
		}
		if pod.DeletionTimestamp != nil {
			ends = pod.DeletionTimestamp.Add(time.Duration(1+w.hash("end", pod.UID)%30) * time.Second)
		}
		if node == nil || !w.now.Before(ends) {
			w.api.Remove(simapi.KeyOf(pod))
			continue
		}
		n++
	}
	if node == nil || !simNodeReady(node) || node.Spec.Unschedulable || n >= 3 || !w.chance(4) {
		return
	}
	cards := node.Status.Allocatable[simCards]
	gcu := w.chance(2)
	if gcu && (cards.IsZero() || simTainted(node, topsv1.TaintDriverUpgrade)) {
		return
	}
	w.runUser(h, gcu)
}

func (w *simWorld) runUser(h *simHost, gcu bool) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: simUsers, Name: fmt.Sprint("work-", w.api.Counter+w.api.Lost), Labels: map[string]string{simOn: h.name},
		OwnerReferences: fixture.ControlledBy(appsv1.SchemeGroupVersion.String(), "ReplicaSet", "work", "uid-work")}}
	pod.Spec = corev1.PodSpec{NodeName: h.name, Containers: []corev1.Container{{Name: "main", Image: "work"}}}
	if gcu {
		one := corev1.ResourceList{simCards: *resource.NewQuantity(1, resource.DecimalSI)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	w.api.Put(pod)
}

// guard lets a PodDisruptionBudget refuse the evictions from a node.
func (w *simWorld) guard(node string) simapi.Key {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: simUsers, Name: node},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{simOn: node}}}}
	w.api.Put(b)
	return simapi.KeyOf(b)
}

// settleUsers leaves no budget but that of the guarded node.
func (w *simWorld) settleUsers() {
	for _, b := range simapi.All[*policyv1.PodDisruptionBudget](w.api, simBudgets) {
		w.api.Remove(simapi.KeyOf(b))
	}
	if w.ops.guarded != "" {
		w.guard(w.ops.guarded)
	}
}
