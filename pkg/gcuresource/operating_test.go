package gcuresource

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// operatedOn has an operation of the gr work on a node.
func operatedOn(node string) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: topsv1.NodeUpgradeStatus{
		Operation: &topsv1.OperationStatus{ID: "op", Rollout: revisionNamespace + "/" + hero, Phase: topsv1.OperationReleasing}}}
}

// sets returns the number of DaemonSets that the gr created.
func (s *scene) sets(t *testing.T) int {
	t.Helper()
	var sets appsv1.DaemonSetList
	if err := s.api.List(context.Background(), &sets, client.MatchingLabels{topsv1.LabelGcuResource: hero}); err != nil {
		t.Fatal(err)
	}
	return len(sets.Items)
}

// Otherwise the manager may be uninstalled while a node is cordoned, and nothing releases it.
func TestAGrThatIsDeletedWaitsForItsOperations(t *testing.T) {
	s := inMemory(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(deployAll(s))
	must(s.goOn(nil))
	before, upgrade := s.sets(t), operatedOn("node-2")
	status := upgrade.Status
	must(s.api.Create(context.Background(), upgrade))
	from := upgrade.DeepCopy()
	upgrade.Status = status
	must(s.api.Status().Patch(context.Background(), upgrade, client.MergeFrom(from)))
	must(deleteHero(s))
	must(s.goOn(nil))
	if got := s.sets(t); got != before {
		t.Errorf("%d of %d DaemonSets are left: an installer may be at work, and the node agent has to report", got, before)
	}
	result, err := s.gcu.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: hero}})
	if must(err); result.RequeueAfter == 0 {
		t.Error("nothing wakes the gr up when the operation is over")
	}
	gr := &topsv1.GcuResource{}
	must(s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr))
	if ready := gr.Status.StandardConditions[0]; !strings.Contains(ready.Message, "operations on node-2") {
		t.Errorf("the gr says %q", ready.Message)
	}
	for _, rs := range gr.Status.ResourceStatuses {
		if !strings.Contains(rs.Message, "operations on node-2") {
			t.Errorf("%s says %q", rs.Name, rs.Message)
		}
	}
	must(s.api.Delete(context.Background(), upgrade)) // by a person: the sweep releases the node
	must(s.goOn(nil))
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); !apierrors.IsNotFound(err) {
		t.Errorf("the gr is not gone: %v", err)
	}
}

// An operation may have been granted just before.
func TestAGrThatIsDeletedWaitsForAnOperationThatTheCacheDoesNotShow(t *testing.T) {
	s := inMemory(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(deployAll(s))
	must(s.goOn(nil))
	works := true
	s.gcu.APIReader = interceptor.NewClient(s.line, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if upgrades, ok := list.(*topsv1.NodeUpgradeList); ok && works {
				upgrades.Items = append(upgrades.Items, *operatedOn("node-1"))
			}
			return err
		},
	})
	must(deleteHero(s))
	must(s.goOn(nil))
	gr, node := &topsv1.GcuResource{}, &corev1.Node{}
	must(s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr))
	must(s.api.Get(context.Background(), client.ObjectKey{Name: "node-1"}, node))
	if ready := gr.Status.StandardConditions[0]; !strings.Contains(ready.Message, "operations on node-1") || node.Labels[topsv1.LabelGcuPresent] == "" {
		t.Errorf("the gr says %q, the labels of the node are %v", ready.Message, node.Labels)
	}
	works = false
	must(s.goOn(nil))
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); !apierrors.IsNotFound(err) {
		t.Errorf("the gr is not gone: %v", err)
	}
}
