package hostile

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

// daemonSetIn returns a DaemonSet with the labels of a component of the gr "fleet".
func daemonSetIn(namespace, name string) *appsv1.DaemonSet {
	ds := fixture.DaemonSet(name)
	ds.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{topsv1.LabelGcuResource: "fleet", topsv1.LabelComponent: "devicePlugin"}}
	labels := map[string]string{"app": name}
	ds.Spec.Selector, ds.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "x"}}
	ds.Status = appsv1.DaemonSetStatus{}
	return ds
}

// TestATenantForgesNoComponent: the owner reference that makes a DaemonSet one of a gr's.
func TestATenantForgesNoComponent(t *testing.T) {
	s := cluster(t)
	admin, tenant := s.Client(t, apiserver.Admin), tenantIn(t, s, "tenant")
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	check(t, admin.Create(t.Context(), gr))
	forged := []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr.Name, UID: gr.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false)}}

	labelled := daemonSetIn("tenant", "labelled")
	check(t, tenant.Create(t.Context(), labelled.DeepCopy()))
	if err := tenant.Get(t.Context(), client.ObjectKeyFromObject(labelled), labelled); err != nil {
		t.Fatal(err)
	}
	created := daemonSetIn("tenant", "forged")
	created.OwnerReferences = forged
	adopted := labelled.DeepCopy()
	adopted.OwnerReferences = forged
	for what, err := range map[string]error{
		"created": tenant.Create(t.Context(), created.DeepCopy(), client.DryRunAll),
		"adopted": tenant.Update(t.Context(), adopted, client.DryRunAll),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s with a forged owner: the API server says %v, want that it is forbidden", what, err)
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: *created.ObjectMeta.DeepCopy(), Spec: appsv1.DeploymentSpec{Selector: created.Spec.Selector, Template: created.Spec.Template}}
	job := &batchv1.Job{ObjectMeta: *created.ObjectMeta.DeepCopy(), Spec: batchv1.JobSpec{Template: *created.Spec.Template.DeepCopy()}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec := &appsv1.ControllerRevision{ObjectMeta: *created.ObjectMeta.DeepCopy(), Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}}
	for _, o := range []client.Object{deployment, job, spec} {
		forbidden(t, fmt.Sprintf("%T with a forged owner", o), func() error { return tenant.Create(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll) })
	}
	t.Run("the operator makes its components, and others may edit them", func(t *testing.T) {
		check(t, s.Client(t, apiserver.Operator).Create(t.Context(), created))
		check(t, tenant.Patch(t.Context(), created, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`))))
	})
}
