package hostile

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
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

// A GcuResource's component is what names it as its controller. With all rights in a namespace, whoever is not the
// operator writes that into nothing that the operator counts, waits for, keeps or deletes with the GcuResource.
func TestATenantForgesNoComponent(t *testing.T) {
	s := cluster(t)
	admin, tenant := s.Client(t, apiserver.Admin), tenantIn(t, s, "tenant")
	ctx := t.Context()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	check(t, admin.Create(ctx, gr))
	forged := []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr.Name, UID: gr.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false)}}
	for _, o := range ofComponents("tenant") {
		t.Run(fmt.Sprintf("%T", o), func(t *testing.T) {
			owned := func() client.Object {
				forgery := o.DeepCopyObject().(client.Object)
				forgery.SetOwnerReferences(forged)
				return forgery
			}
			forbidden(t, "created", func() error { return tenant.Create(ctx, owned(), client.DryRunAll) })
			allowed(t, "created without an owner", func() error { return tenant.Create(ctx, o) })
			refused(t, "updated", func() error { return tenant.Update(ctx, owned(), client.DryRunAll) })
			patch := client.MergeFrom(o)
			refused(t, "patched", func() error { return tenant.Patch(ctx, owned(), patch, client.DryRunAll) })
			if err := tenant.Status().Patch(ctx, owned(), patch, client.DryRunAll); !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) { // some have no status
				t.Errorf("in a write of the status: the API server says %v, want that it is forbidden", err)
			}
		})
	}
	t.Run("the operator makes its components, and others may edit them", func(t *testing.T) {
		created := daemonSetIn("tenant", "made")
		created.OwnerReferences = forged
		check(t, s.Client(t, apiserver.Operator).Create(ctx, created))
		check(t, merge(ctx, tenant, created, `{"metadata":{"annotations":{"a":"b"}}}`))
	})
}

// ofComponents returns an object of each kind with a namespace that components have, and a kept spec, with the
// labels of a component of the gr "fleet".
func ofComponents(namespace string) []client.Object {
	ds := daemonSetIn(namespace, "forged")
	meta := func() metav1.ObjectMeta { return *ds.ObjectMeta.DeepCopy() }
	job := &batchv1.Job{ObjectMeta: meta(), Spec: batchv1.JobSpec{Template: *ds.Spec.Template.DeepCopy()}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return []client.Object{
		ds, job,
		&appsv1.Deployment{ObjectMeta: meta(), Spec: appsv1.DeploymentSpec{Selector: ds.Spec.Selector, Template: ds.Spec.Template}},
		&appsv1.ControllerRevision{ObjectMeta: meta(), Data: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}},
		&corev1.ConfigMap{ObjectMeta: meta()},
		&corev1.ServiceAccount{ObjectMeta: meta()},
		&corev1.Service{ObjectMeta: meta(), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta(), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}},
	}
}
