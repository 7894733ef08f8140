package hostile

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// With config/gate the manager has the rights to create and patch pods.
func TestTheTokenOfTheManagerCreatesAndReleasesPodsOfTheGateOnly(t *testing.T) {
	s := cluster(t)
	since136(t, s, "the gate")
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	ctx := t.Context()
	optedIn, proxy := daemonSet("gate-opted-in", ""), daemonSet("gate-kube-proxy", "")
	optedIn.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}
	check(t, admin.Create(ctx, optedIn))
	check(t, admin.Create(ctx, proxy))
	controlPlane := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gate-cp", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}
	check(t, admin.Create(ctx, controlPlane))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), controlPlane)) })
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := ofDaemonSet(optedIn.Name, optedIn.UID)
		p.Name, p.Labels = p.Name+"-restored", map[string]string{"controller-revision-hash": "old"}
		p.Spec.NodeName = "n"
		change(p)
		return p
	}
	creates := func(change func(*corev1.Pod)) func() error {
		return func() error { return manager.Create(ctx, pod(change), client.DryRunAll) }
	}
	allForbidden(t, map[string]func() error{
		"create a pod of nobody":                creates(func(p *corev1.Pod) { p.OwnerReferences = nil }),
		"create a pod of a DaemonSet of others": creates(func(p *corev1.Pod) { p.OwnerReferences = ofDaemonSet(proxy.Name, proxy.UID).OwnerReferences }),
		"create a pod with another account":     creates(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "cluster-admin" }),
		"create a pod that is not bound":        creates(func(p *corev1.Pod) { p.Spec.NodeName = "" }),
		"create a pod without a revision":       creates(func(p *corev1.Pod) { p.Labels = nil }),
		"create a privileged pod on the control plane": creates(func(p *corev1.Pod) {
			p.Spec.NodeName = "gate-cp"
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}),
		"create a pod with a port of the host on the control plane": creates(func(p *corev1.Pod) {
			p.Spec.NodeName = "gate-cp"
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 6443}}
		}),
	})
	allowed(t, "create a pod of a DaemonSet that asks for upgrades", creates(func(*corev1.Pod) {}))

	gated := pod(func(p *corev1.Pod) {
		p.Name, p.Spec.NodeName = "gate-gated", ""
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}, {Name: "example.com/other"}}
	})
	check(t, admin.Create(ctx, gated))
	patch := func(data string, options ...client.PatchOption) func() error {
		return func() error {
			return manager.Patch(ctx, gated.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(data)), options...)
		}
	}
	allForbidden(t, map[string]func() error{
		"remove the gate of others": patch(`{"spec":{"schedulingGates":[]}}`, client.DryRunAll),
		"change an image as well":   patch(`{"spec":{"schedulingGates":[{"name":"example.com/other"}],"containers":[{"name":"c","image":"mine"}]}}`, client.DryRunAll),
		"change a label":            patch(`{"metadata":{"labels":{"app":"victim"}}}`, client.DryRunAll),
		"choose a node":             patch(`{"spec":{"schedulingGates":[{"name":"example.com/other"}],"nodeSelector":{"a":"b"}}}`, client.DryRunAll),
	})
	allowed(t, "release a pod from the gate", patch(`{"spec":{"schedulingGates":[{"name":"example.com/other"}]}}`))
	allForbidden(t, map[string]func() error{"change a pod that is not at the gate": patch(`{"spec":{"containers":[{"name":"c","image":"mine"}]}}`, client.DryRunAll)})
}
