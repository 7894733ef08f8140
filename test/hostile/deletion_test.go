package hostile

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// TestAGcuResourceIsDeletedInTheBackgroundOnly: otherwise the garbage collector deletes or orphans its
// components past the operator, which removes them in order.
func TestAGcuResourceIsDeletedInTheBackgroundOnly(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "deletion", Labels: map[string]string{"deletion": ""}}}
	check(t, admin.Create(t.Context(), gr))
	deletes := func(c client.Client, options ...client.DeleteOption) func() error {
		return func() error { return c.Delete(t.Context(), gr.DeepCopy(), append(options, client.DryRunAll)...) }
	}
	orphan, foreground := client.PropagationPolicy(metav1.DeletePropagationOrphan), client.PropagationPolicy(metav1.DeletePropagationForeground)
	deprecated := func(orphan bool) client.DeleteOption {
		return &client.DeleteOptions{Raw: &metav1.DeleteOptions{OrphanDependents: ptr.To(orphan)}}
	}
	forbidden(t, "foreground", deletes(admin, foreground))
	refused(t, "orphan", deletes(admin, orphan))
	refused(t, "orphan, as before Kubernetes 1.7", deletes(admin, deprecated(true)))
	refused(t, "all of a label, in the foreground", func() error {
		return admin.DeleteAllOf(t.Context(), &topsv1.GcuResource{}, client.HasLabels{"deletion"}, foreground, client.DryRunAll)
	})
	if err := deletes(admin, orphan)(); err == nil || !strings.Contains(err.Error(), "use Background (kubectl delete without --cascade") {
		t.Errorf("the API server says %v, which does not say what to do", err)
	}
	allowed(t, "background", deletes(admin, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	allowed(t, "the default", deletes(admin))
	allowed(t, "background, as before Kubernetes 1.7", deletes(admin, deprecated(false)))
	for _, name := range []string{"system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager"} {
		collector := as(t, s, rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}})
		allowed(t, "the garbage collector: "+name, deletes(collector, foreground))
	}
	for _, finalizer := range []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents} {
		before := gr.DeepCopy()
		gr.Finalizers = []string{finalizer}
		check(t, admin.Patch(t.Context(), gr, client.MergeFrom(before)))
		refused(t, "the default, with finalizer "+finalizer, deletes(admin))
		allowed(t, "background, with finalizer "+finalizer, deletes(admin, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	allowed(t, "for good", func() error {
		return admin.Delete(t.Context(), gr, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
}
