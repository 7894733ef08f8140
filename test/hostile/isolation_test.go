package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

// asks writes a request for a pod as the agent of its node.
func asks(t *testing.T, s *apiserver.Server, id string, ds *appsv1.DaemonSet, pod *corev1.Pod, at time.Time) {
	t.Helper()
	request := fixture.Request(id, ds, pod)
	request.RequestTime = metav1.NewTime(at.Truncate(time.Second))
	check(t, write(t, agentOf(t, s, pod.Spec.NodeName), pod.Spec.NodeName, object{"requests": []any{request}}))
}

// awaitDeletion waits until the manager deletes a pod; a kubelet would end it.
func awaitDeletion(t *testing.T, admin client.Client, pod *corev1.Pod) {
	t.Helper()
	var last error
	eventually(t, "pod "+pod.Name+" is deleted", func(ctx context.Context) bool {
		last = admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return last == nil && pod.DeletionTimestamp != nil
	})
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*patience, true, func(ctx context.Context) (bool, error) { return holds(ctx), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// awaitPasses has the controller of rollouts pass over the group of a DaemonSet, which is not changed otherwise.
func awaitPasses(t *testing.T, admin client.Client, ds *appsv1.DaemonSet, n int) {
	t.Helper()
	for i := range n {
		passes := passesOf("controller_runtime_reconcile_total")
		check(t, merge(t.Context(), admin, ds, fmt.Sprintf(`{"metadata":{"annotations":{"example.com/wakes":"%d"}}}`, i)))
		eventually(t, "there is a pass", func(context.Context) bool { return passesOf("controller_runtime_reconcile_total") > passes })
	}
}

// TestARequestOfTheFutureOutlivesNoFailure: a node asks ten years ahead, and fails. A request with the right time,
// later, is newer than the failure, and starts the node again.
func TestARequestOfTheFutureOutlivesNoFailure(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "future"}, Spec: topsv1.UpgradePolicySpec{
		ProgressDeadlineSeconds: ptr.To[int32](1), ProbationSeconds: ptr.To[int32](0)}}
	check(t, admin.Create(t.Context(), policy))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), policy)) })
	ds := requested(t, admin, "future")
	check(t, merge(t.Context(), admin, ds, `{"metadata":{"annotations":{"`+topsv1.AnnotationUpgradePolicy+`":"future"}}}`))
	addNode(t, s, "future")
	pod := outdatedPod(t, admin, ds, "future")
	startUpdater(t, s)

	asks(t, s, "of-the-future", ds, pod, time.Now().Add(10*365*24*time.Hour))
	awaitDeletion(t, admin, pod)
	var u topsv1.NodeUpgrade
	eventually(t, "the node has failed", func(ctx context.Context) bool { // nothing ends its pod
		return admin.Get(ctx, client.ObjectKey{Name: "future"}, &u) == nil && len(u.Status.Tasks) == 1 && u.Status.Tasks[0].Reason == "ProgressDeadlineExceeded"
	})
	check(t, admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	pod = outdatedPod(t, admin, ds, "future")
	time.Sleep(time.Second) // times are whole seconds
	asks(t, s, "of-now", ds, pod, time.Now())
	awaitDeletion(t, admin, pod)
}

// TestANodeUpgradeFromBeforeABoundDelaysNobody: 70 requests were stored while the schema had no bound of 64. Their
// answers are too many to be stored, and no pass fails of that.
func TestANodeUpgradeFromBeforeABoundDelaysNobody(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	ds := requested(t, admin, "bounded")
	pods := map[string]*corev1.Pod{}
	for _, node := range []string{"before-bound", "within-bound"} {
		addNode(t, s, node)
		pods[node] = outdatedPod(t, admin, ds, node)
	}
	var many []any
	for i := range 70 {
		many = append(many, fixture.Request(fmt.Sprint(i), ds, pods["within-bound"]))
	}
	agent := agentOf(t, s, "before-bound")
	bound := func(n int) {
		t.Helper()
		kind := &unstructured.Unstructured{}
		kind.SetAPIVersion("apiextensions.k8s.io/v1")
		kind.SetKind("CustomResourceDefinition")
		kind.SetName("nodeupgrades." + topsv1.GroupVersion.Group)
		check(t, admin.Patch(t.Context(), kind, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
			`[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/requests/maxItems","value":%d}]`, n))))
	}
	bound(1000)
	eventually(t, "70 requests are stored", func(context.Context) bool { return write(t, agent, "before-bound", object{"requests": many}) == nil })
	bound(64)
	eventually(t, "70 requests are too many", func(context.Context) bool {
		return apierrors.IsInvalid(write(t, agentOf(t, s, "within-bound"), "within-bound", object{"requests": many}, client.DryRunAll))
	})
	startUpdater(t, s)
	failures := passesOf("controller_runtime_reconcile_errors_total")
	asks(t, s, "honest", ds, pods["within-bound"], time.Now())
	awaitDeletion(t, admin, pods["within-bound"])
	awaitPasses(t, admin, ds, 10)
	if failures = passesOf("controller_runtime_reconcile_errors_total") - failures; failures > 4 { // a cache may be stale at first
		t.Errorf("%d passes failed", failures)
	}
	var u topsv1.NodeUpgrade
	check(t, admin.Get(t.Context(), client.ObjectKey{Name: "before-bound"}, &u))
	if len(u.Status.Requests) != 70 || len(u.Status.Tasks) != 0 {
		t.Errorf("%d requests have %d answers: this NodeUpgrade was to be one that cannot be written", len(u.Status.Requests), len(u.Status.Tasks))
	}
}

// TestAForgedComponentStopsNoRollout: without the policy gcu-components a tenant makes a DaemonSet that says of itself,
// with the UID, that a gr controls it, and pauses the rollout of its group. The node of the gr's own starts.
func TestAForgedComponentStopsNoRollout(t *testing.T) {
	s := cluster(t)
	admin, tenant := s.Client(t, apiserver.Admin), tenantIn(t, s, "forger")
	spec := fixture.SpecNaming(types.NamespacedName{Namespace: apiserver.Namespace, Name: "genuine"})
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "genuine"}, Spec: spec}
	check(t, admin.Create(t.Context(), gr))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), gr)) })
	member, err := json.Marshal(object{"metadata": object{"labels": map[string]string{topsv1.LabelGcuResource: gr.Name}, "ownerReferences": controlledBy(gr)}})
	check(t, err)
	ds := requested(t, admin, "genuine")
	check(t, merge(t.Context(), admin, ds, string(member)))
	addNode(t, s, "genuine")
	pod := outdatedPod(t, admin, ds, "genuine")

	forged := daemonSetIn("forger", "forged")
	forged.Labels, forged.OwnerReferences = map[string]string{topsv1.LabelGcuResource: gr.Name}, controlledBy(gr)
	forged.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationPaused: "true"}
	forbidden(t, "a forged component", func() error { return tenant.Create(t.Context(), forged.DeepCopy()) })
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "gcu-components"}}
	check(t, admin.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	check(t, admin.Delete(t.Context(), binding))
	restored := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name, Labels: binding.Labels}, Spec: binding.Spec}
	t.Cleanup(func() { check(t, client.IgnoreAlreadyExists(admin.Create(context.Background(), restored))) })
	allowed(t, "a forged component without the policy", func() error { return tenant.Create(t.Context(), forged) })
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), forged)) })
	check(t, admin.Create(t.Context(), restored.DeepCopy()))
	another := forged.DeepCopy()
	another.ResourceVersion, another.UID, another.Name = "", "", "another"
	forbidden(t, "another one", func() error { return tenant.Create(t.Context(), another.DeepCopy(), client.DryRunAll) })

	startUpdater(t, s)
	asks(t, s, "genuine", ds, pod, time.Now())
	awaitDeletion(t, admin, pod)
}
