package gcuresource

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TestOrphanedDaemonSetsKeepTheirPods deletes a gr with --cascade=orphan where no policy denies that: the
// garbage collector removes the owner of its DaemonSets. Their nodes keep the labels until a person has deleted them.
func TestOrphanedDaemonSetsKeepTheirPods(t *testing.T) {
	s := inMemory(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(deployAll(s))
	must(s.goOn(nil))
	budget := &budgetObserver{api: s.api.(*memoryAPI)}
	must(deleteHero(s))
	var sets appsv1.DaemonSetList
	must(s.api.List(context.Background(), &sets, client.MatchingLabels{topsv1.LabelGcuResource: hero}))
	if len(sets.Items) == 0 {
		t.Fatal("nothing was deployed")
	}
	for i := range sets.Items {
		before := sets.Items[i].DeepCopy()
		sets.Items[i].OwnerReferences = nil
		must(s.api.Patch(context.Background(), &sets.Items[i], client.MergeFrom(before)))
	}
	must(s.goOn(nil))
	for i := range sets.Items {
		if runs := budget.runs(&sets.Items[i]); len(runs) != len(sceneNodes) {
			t.Errorf("DaemonSet %s runs on %v", sets.Items[i].Name, runs)
		}
	}
	gr := &topsv1.GcuResource{}
	must(s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr))
	if ready := gr.Status.StandardConditions[0]; !strings.Contains(ready.Message, "DaemonSet kube-system/enflame-gcu-exporter, which lost its owner") {
		t.Errorf("the gr says %q", ready.Message)
	}
	for i := range sets.Items {
		must(s.api.Delete(context.Background(), &sets.Items[i]))
	}
	must(s.goOn(nil))
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); !apierrors.IsNotFound(err) {
		t.Errorf("the gr is not gone: %v", err)
	}
}
