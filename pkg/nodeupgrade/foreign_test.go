package nodeupgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// monitor makes a DaemonSet of somebody else, with a pod that uses a card.
func (s *stage) monitor(tolerations ...corev1.Toleration) *corev1.Pod {
	s.t.Helper()
	labels := map[string]string{"app": "monitor"}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "monitor"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Tolerations: tolerations, Containers: []corev1.Container{{Name: "main", Image: "monitor:1"}}}}}}
	s.must(s.admin.Create(s.ctx, ds))
	return s.workload("monitor", func(p *corev1.Pod) {
		yes := true
		p.Labels = labels
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: &yes}}
	})
}

// A DaemonSet's pod would come back at once before the device is closed. A tenant's DaemonSet stays one of
// others with our label and the gr as its controller, where no policy bounds who sets it.
func TestPodsOfOtherDaemonSetsLeaveBehindTheTaint(t *testing.T) {
	for _, forged := range []bool{false, true} {
		t.Run(fmt.Sprint("forged ", forged), func(t *testing.T) {
			s := newStage(t, driver, plugin)
			pod := s.monitor()
			if forged {
				ds := s.daemonSet("monitor")
				ds.Labels, ds.OwnerReferences = map[string]string{topsv1.LabelComponent: exporter}, s.daemonSet(driver).OwnerReferences
				s.must(s.admin.Update(s.ctx, ds))
			}
			s.leavesBehindTheTaint(pod)
		})
	}
}

func (s *stage) leavesBehindTheTaint(pod *corev1.Pod) {
	s.t.Helper()
	s.workload("neighbor")
	allow := s.budget("monitor")
	allow(0)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	want := "PodDisruptionBudget " + s.namespace + "/keep refuses: " + s.namespace + "/monitor"
	s.until("a refusal before the node is touched", func(op *topsv1.OperationStatus) bool {
		return op.Reason == operation.ReasonPrecheckFailed && strings.Contains(op.Message, want)
	})
	s.untouched()
	allow(1)
	s.untilTask("driver_replace")
	allow(0)
	op := s.until("a refusal", func(op *topsv1.OperationStatus) bool {
		return op.Reason == operation.ReasonDeviceInUse && strings.Contains(op.Message, "refuses")
	})
	if op.Message != want {
		s.t.Errorf("%q, want %q", op.Message, want)
	}
	if got := s.marks(); got != "cordoned, by op1, closed for op1" || s.created[driver] != 1 || s.created[plugin] != 1 {
		s.t.Errorf("while it runs: %s, pods that were made: %v", got, s.created)
	}
	allow(1)
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
	if err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		s.t.Errorf("the driver was replaced under the pod: %v", err)
	}
}

func TestADaemonSetThatToleratesTheTaintIsNamedBeforeTheNodeIsTouched(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.monitor(corev1.Toleration{Operator: corev1.TolerationOpExists})
	s.publish(driver, "v2")
	s.offer("op1", driver)
	op := s.until("what blocks", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonPrecheckFailed })
	if want := "DaemonSet " + s.namespace + "/monitor tolerates taint " + topsv1.TaintDriverUpgrade; !strings.Contains(op.Message, want) {
		t.Errorf("%q, want %q in it", op.Message, want)
	}
	s.ends("Deferred PrecheckFailed", "", "devicePlugin v1, driver v1")
	s.untouched()
}

func TestPodsOfOtherDaemonSetsStayWhenOnlyTheRuntimeRestarts(t *testing.T) {
	s := newStage(t, toolkit)
	pod := s.monitor(corev1.Toleration{Operator: corev1.TolerationOpExists})
	s.publish(toolkit, "v2")
	s.offer("op1", toolkit)
	s.ends("Done Succeeded", "", "toolkit v2")
	s.must(s.admin.Get(s.ctx, client.ObjectKeyFromObject(pod), pod))
	if pod.DeletionTimestamp != nil {
		t.Error("the pod is being deleted")
	}
}

// A pod that did not ask for the device may have it open all the same, as a privileged one: no drain
// evicts it, and the driver cannot be removed under it.
func TestAPodThatOpenedADeviceWithoutACardIsNamedBeforeTheNodeIsTouched(t *testing.T) {
	s := newStage(t, driver, plugin)
	pod := s.workload("privileged", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	own := s.podsOf(plugin)[0]
	s.host.DeviceHolders = []topsv1.DeviceHolder{{PID: 7, Command: "plugin", Device: "/dev/gcuctl", PodUID: string(own.UID)},
		{PID: 8, Command: "train", Device: "/dev/gcu0", PodUID: string(pod.UID)}}
	s.publish(driver, "v2")
	s.offer("op1", driver)
	op := s.until("what blocks", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonPrecheckFailed })
	if want := "process 8 (train, uid 0, pod " + s.namespace + "/privileged, which the drain leaves) has /dev/gcu0 open: stop it"; op.Message != want {
		t.Errorf("%q, want %q", op.Message, want)
	}
	s.kill(pod) // by force: its process lives on
	want := "process 8 (train, uid 0, pod " + string(pod.UID) + ", which the API server does not have) has /dev/gcu0 open: stop it"
	s.until(want, func(op *topsv1.OperationStatus) bool { return op.Message == want })
	s.untouched()
	s.host.DeviceHolders = nil
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
}

// The device plugin may offer cards under names of the user. Pods keep the cards that they have under a name that the
// DaemonSet no longer has, as long as the plugin's pod, and its revision, are from before.
func TestAPodWithACardOfAnotherNameLeavesBeforeTheDriver(t *testing.T) {
	for name, now := range map[string]string{"of today": "a.com/x", "from before it was renamed": "b.com/y", "from before it was removed": ""} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, driver, plugin)
			s.offersCardsAs("a.com/x")
			s.keepTemplate(plugin, "v2")
			s.offersCardsAs(now)
			card := corev1.ResourceList{"a.com/x": resource.MustParse("1")}
			pod := s.workload("work", func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: card, Limits: card}
			})
			s.publish(plugin, "v3")
			s.publish(driver, "v2")
			s.offer("op1", driver, plugin)
			s.untilTask("driver_replace")
			if err := s.admin.Get(s.ctx, client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) && pod.DeletionTimestamp == nil {
				t.Errorf("the driver is replaced under the pod: %v", err)
			}
		})
	}
}

// A resource that the plugin no longer offers is not missing once it is replaced.
func TestARenamedResourceIsNotMissingAfterTheUpgrade(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.offersCardsAs("a.com/x")
	s.keepTemplate(plugin, "v2")
	s.offersCardsAs("b.com/y")
	s.publish(plugin, "v3")
	s.turn() // which sets what the node offers
	node := s.readNode()
	node.Status.Allocatable["a.com/x"] = resource.MustParse("8")
	s.must(s.admin.Status().Update(s.ctx, node))
	s.publish(driver, "v2")
	s.offer("op1", driver, plugin)
	op := s.until("the precheck", func(op *topsv1.OperationStatus) bool { return op.Before != nil })
	if _, is := op.Before.Allocatable["a.com/x"]; is {
		t.Errorf("the baseline is %v: the plugin no longer offers a.com/x", op.Before.Allocatable)
	}
}

// offersCardsAs changes the name under which the template of the device plugin offers cards.
func (s *stage) offersCardsAs(name string) {
	s.t.Helper()
	set := s.daemonSet(plugin)
	set.Spec.Template.Spec.Containers[0].Env = nil
	if name != "" {
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: daemonset.VariableOfResources, Value: name}}
	}
	s.must(s.admin.Update(s.ctx, set))
}

// keepTemplate publishes a revision of a component that holds its template, as the DaemonSet controller does.
func (s *stage) keepTemplate(component, revision string) {
	s.t.Helper()
	s.publish(component, revision)
	kept := &appsv1.ControllerRevision{}
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: strings.ToLower(component) + "-" + revision}, kept))
	s.must(s.admin.Delete(s.ctx, kept)) // its data cannot be changed
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": s.daemonSet(component).Spec.Template}})
	s.must(err)
	kept.ResourceVersion, kept.Data = "", runtime.RawExtension{Raw: raw}
	s.must(s.admin.Create(s.ctx, kept))
}

// unread fails reads of ResourceClaims.
type unread struct{ client.Reader }

func (r unread) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(*resourcev1.ResourceClaim); is {
		return errors.New("no answer")
	}
	return r.Reader.Get(ctx, key, o, options...)
}

func TestAClaimThatCannotBeReadIsNamedBeforeTheNodeIsTouched(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.workload("claims", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		name := "card"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: name, ResourceClaimName: &name}}
	})
	s.r.evictions.drainer.Live = unread{s.r.evictions.drainer.Live}
	s.publish(driver, "v2")
	s.offer("op1", driver)
	op := s.until("a decision", func(op *topsv1.OperationStatus) bool {
		return op.Task != s.node+"_node_precheck" && op.Task != "" || op.Reason == operation.ReasonPrecheckFailed
	})
	if want := "reading its ResourceClaim card: no answer: " + s.namespace + "/claims"; op.Reason != operation.ReasonPrecheckFailed || !strings.Contains(op.Message, want) {
		t.Errorf("%s %q, want %q in it", op.Reason, op.Message, want)
	}
	if got := s.marks(); got != "" {
		t.Errorf("the node is %s", got)
	}
}
