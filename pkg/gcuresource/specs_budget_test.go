package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// budgetObserver watches a history of specs for pods that go past the budget. With a strategy the
// updater alone takes pods from nodes, so no write of this package may: neither the deletion of a
// DaemonSet that still runs somewhere, nor a label of a node without which its pods are not to be there.
// A gr that is deleted, or has no strategy as the operator sees it, takes them at once, and so does a
// user who leaves nodes out.
type budgetObserver struct {
	api *memoryAPI
	lag *lag
	// violations are what went past the budget.
	violations []string
}

// observed has the deletions of the operator of a scene in memory, and what its cluster does, observed.
func (s *scene) observed(lag *lag) *budgetObserver {
	b := &budgetObserver{api: s.api.(*memoryAPI), lag: lag}
	s.operator = interceptor.NewClient(s.operator, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			runs := b.runs(o)
			err := c.Delete(ctx, o, opts...)
			if err == nil && len(runs) > 0 && b.inForce() {
				b.violations = append(b.violations, fmt.Sprintf("budget: DaemonSet %s is deleted while it runs on %v", o.GetName(), runs))
			}
			return err
		},
	})
	s.rest.excluded, s.rest.oneByOne = b.excluded, true
	s.restart()
	return b
}

// runs returns the nodes that a DaemonSet runs on, none for another object.
func (b *budgetObserver) runs(o client.Object) (nodes []string) {
	if ref := component.RefOf(o); ref.Kind != component.DaemonSetKind.Kind {
		return nil
	}
	ds, pods := &appsv1.DaemonSet{}, &corev1.PodList{}
	if b.api.Get(context.Background(), client.ObjectKeyFromObject(o), ds) != nil || b.api.List(context.Background(), pods, client.InNamespace(ds.Namespace)) != nil {
		return nil // it is gone
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; metav1.IsControlledBy(pod, ds) && !daemonset.IsPlaceholder(pod) {
			nodes = append(nodes, daemonset.NodeName(pod))
		}
	}
	return nodes
}

// inForce reports whether the gr is upgraded node by node, as it is and as the operator sees it.
func (b *budgetObserver) inForce() bool {
	views := []*memoryAPI{b.api}
	if b.lag.live != nil {
		views = append(views, b.lag.view(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind)))
	}
	for _, view := range views {
		gr := &topsv1.GcuResource{}
		if view.Get(context.Background(), client.ObjectKey{Name: hero}, gr) != nil || gr.DeletionTimestamp != nil || gr.Annotations[topsv1.AnnotationUpdateStrategy] == "" {
			return false
		}
	}
	return true
}

// excluded is called when the DaemonSet controller takes a pod from a node that its DaemonSet excludes.
func (b *budgetObserver) excluded(ds *appsv1.DaemonSet, pod *corev1.Pod, node *corev1.Node) {
	if labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) || !b.inForce() {
		return // a user excludes the node
	}
	gr := &topsv1.GcuResource{}
	if err := b.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); err != nil {
		b.violations = append(b.violations, err.Error())
		return
	}
	if p := gr.Spec.GcusharePlugin; component.SharesCards(&gr.Spec) && len(p.GcushareNodes) > 0 && !slices.Contains(p.GcushareNodes, node.Name) {
		return // so does this one
	}
	b.violations = append(b.violations, fmt.Sprintf("budget: pod %s goes because %s is no longer labeled for DaemonSet %s", pod.Name, node.Name, ds.Name))
}

// TestADaemonSetIsNotDeletedByAnOldListOfItsPods removes a component whose pods the cache does not show
// yet: they are too new.
func TestADaemonSetIsNotDeletedByAnOldListOfItsPods(t *testing.T) {
	s := prepared(t)
	behind := &lag{specMaker: specMaker{rand.New(rand.NewPCG(1, 1))}}
	budget := s.observed(behind)
	settings := map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}
	before := s.api.(*memoryAPI).copied()
	deployed := desiredSpec{topsv1.GcuResourceSpec{Exporter: &topsv1.BaseFields{}}, settings}
	if err := errors.Join(s.make(deployed), s.goOn(nil), s.make(desiredSpec{Settings: settings})); err != nil {
		t.Fatal(err)
	}
	behind.begin(s)
	for range 3 {
		clear(behind.kinds)
		behind.kinds[corev1.SchemeGroupVersion.WithKind("Pod")] = before
		if err := errors.Join(s.turn(), s.rest.step()); err != nil {
			t.Fatal(err)
		}
	}
	behind.end(s)
	if err := s.goOn(nil); err != nil || len(budget.violations) > 0 {
		t.Error(err, budget.violations)
	}
	if nodes := budget.runs(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "enflame-gcu-exporter"}}); len(nodes) > 0 {
		t.Errorf("it still runs on %v", nodes)
	}
}
