package daemonupdater

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func (w *simWorld) dump() string {
	s := ""
	for _, p := range simAll[*corev1.Pod](w.api, simPods) {
		s += fmt.Sprintf("%s %s ready=%v del=%v fin=%v node=%q created=%s\n", p.Name, p.Spec.Containers[0].Image, simPodReady(p), p.DeletionTimestamp != nil, p.Finalizers, p.Spec.NodeName, p.CreationTimestamp.Sub(epoch))
	}
	for _, r := range simAll[*topsv1.DaemonRollout](w.api, simRollouts) {
		s += fmt.Sprintf("%s inflight %+v failed %+v\n", r.Name, r.Status.InFlight, r.Status.Failed)
	}
	for _, n := range simAll[*corev1.Node](w.api, simNodes) {
		s += fmt.Sprintf("%s %v uns=%v marks=%v ready=%v\n", n.Name, n.Spec.Taints, n.Spec.Unschedulable, simMarks(n), simNodeReady(n))
	}
	for _, u := range simAll[*topsv1.NodeUpgrade](w.api, simUpgrades) {
		s += fmt.Sprintf("%s spec %v status %v\n", u.Name, u.Spec.Operation, u.Status.Operation)
	}
	return s
}
