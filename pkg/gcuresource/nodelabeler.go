package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=topsops.enflame.com,resources=gcuresources;nodeupgrades,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=daemonsets,verbs=get;list;watch

// NodeLabeler gives every node with a GCU the label that the GCU components select on, as long as
// a gr exists (contract statement 54), and the nodes whose cards are shared the label of
// gcusharePlugin (statement 28). It records on the node which labels are its own, and leaves
// others alone.
type NodeLabeler struct {
	// Client reads from the manager's cache and writes. SetupWithManager sets it if nil.
	client.Client
	// APIReader reads from the API server, past the cache. SetupWithManager sets it if nil.
	APIReader client.Reader
	// Namespace of the revisions of specs: the operator's own.
	Namespace string
}

// SetupWithManager registers the controller with the manager. It returns an error if a watch
// cannot be set up.
func (l *NodeLabeler) SetupWithManager(mgr ctrl.Manager) error {
	if l.Client == nil {
		l.Client = mgr.GetClient()
	}
	if l.APIReader == nil {
		l.APIReader = mgr.GetAPIReader()
	}
	// Deletion also increments the generation.
	specChanges := predicate.GenerationChangedPredicate{}
	return ctrl.NewControllerManagedBy(mgr).
		Named("nodelabeler").
		WithOptions(retryOptions()).
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: labelsChanged})).
		Watches(&topsv1.NodeUpgrade{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: countChanged})).
		Watches(&topsv1.GcuResource{}, handler.EnqueueRequestsFromMapFunc(l.allNodes), builder.WithPredicates(specChanges)).
		Watches(&topsv1.DaemonRollout{}, handler.EnqueueRequestsFromMapFunc(l.allNodes), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: rejects})).
		Watches(&appsv1.DaemonSet{}, handler.EnqueueRequestsFromMapFunc(l.allNodes), builder.WithPredicates(
			goes, predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[topsv1.LabelComponent] == component.GcusharePlugin }))).
		Complete(l)
}

// Reconcile sets or removes the labels of one node, as decided by package nodelabel. A gr of which the spec in force is
// unknown is an error, but only after that.
func (l *NodeLabeler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := l.Get(ctx, request.NamespacedName, node, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, denial.IgnoreNotFound(err)
	}
	var grs topsv1.GcuResourceList
	if err := l.List(ctx, &grs, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing GcuResources: %w", err)
	}
	claims, unknownSpecs, err := revisionKeeper{l.Client, l.Client, l.Namespace}.allInForce(ctx, l.Client, grs.Items)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := readLeaving(ctx, l.Client, &claims); err != nil {
		return ctrl.Result{}, err
	}
	if err = confirmRemoval(ctx, l.APIReader, node, &claims); err == nil {
		err = patchLabels(ctx, l.Client, node, claims)
	}
	if denial.IsConflict(err) {
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	}
	return ctrl.Result{}, errors.Join(denial.IgnoreNotFound(err), unknownSpecs)
}

// readLeaving reads which grs have a DaemonSet of gcusharePlugin.
func readLeaving(ctx context.Context, from client.Reader, claims *nodelabel.Inputs) error {
	claims.Leaving = map[types.UID]bool{}
	var sets appsv1.DaemonSetList
	if err := from.List(ctx, &sets, client.MatchingLabels{topsv1.LabelComponent: component.GcusharePlugin}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing DaemonSets of %s: %w", component.GcusharePlugin, err)
	}
	for i := range sets.Items {
		if owner := daemonset.GcuResourceOwner(&sets.Items[i]); owner != nil {
			claims.Leaving[owner.UID] = true
		}
	}
	return nil
}

// confirmRemoval returns a conflict if a node would lose a label because the cache does not show every gr as the API
// server has it: with its label a node loses its GCU pods. Before that it adds to the claims whether the agent of the node
// counts cards.
func confirmRemoval(ctx context.Context, live client.Reader, node *corev1.Node, claims *nodelabel.Inputs) error {
	if !losesLabel(node, *claims) {
		return nil
	}
	var upgrade topsv1.NodeUpgrade
	if err := live.Get(ctx, client.ObjectKey{Name: node.Name}, &upgrade); denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading NodeUpgrade %s from the API server: %w", node.Name, err)
	}
	claims.CountsCards = map[string]bool{node.Name: state.HostOf(&upgrade).Cards > 0}
	if !losesLabel(node, *claims) {
		return nil
	}
	return confirmAll(ctx, live, claims.Resources)
}

// losesLabel reports whether a node loses a label of this operator.
func losesLabel(node *corev1.Node, claims nodelabel.Inputs) bool {
	after := nodelabel.Owned(nodelabel.Relabeled(node, claims))
	return slices.ContainsFunc(nodelabel.Owned(node), func(key string) bool { return !slices.Contains(after, key) })
}

// patchLabels gives a node the labels that are claimed. The patch fails if the node changed since it
// was read, so that a label someone else has just set is not taken over.
func patchLabels(ctx context.Context, c client.Client, node *corev1.Node, claims nodelabel.Inputs) error {
	after := nodelabel.Relabeled(node, claims)
	if after == node {
		return nil
	}
	log.FromContext(ctx).Info("Changing node labels", "Node", node.Name,
		"before", node.Annotations[topsv1.AnnotationOwnedLabels], "after", after.Annotations[topsv1.AnnotationOwnedLabels])
	if err := c.Patch(ctx, after, locked(node), client.FieldOwner(topsv1.ManagedBy)); err != nil {
		return fmt.Errorf("labeling node %s: %w", node.Name, err)
	}
	return nil
}

// removeLabels removes our labels that no gr wants any more from nodes. A failed node does not prevent the others.
func removeLabels(ctx context.Context, c client.Client, nodes []*corev1.Node, claims nodelabel.Inputs) error {
	if err := readLeaving(ctx, c, &claims); err != nil {
		return err
	}
	var errs []error
	for _, node := range nodes {
		if len(nodelabel.Owned(node)) > 0 {
			errs = append(errs, denial.IgnoreNotFound(patchLabels(ctx, c, node, claims)))
		}
	}
	return errors.Join(errs...)
}

func (l *NodeLabeler) allNodes(ctx context.Context, _ client.Object) []reconcile.Request {
	nodes, err := readNodes(ctx, l.Client)
	if err != nil {
		log.FromContext(ctx).Error(err, "Listing nodes failed, the watch event is dropped")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(nodes))
	for _, node := range nodes {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)})
	}
	return requests
}

// labelsChanged reports whether an update of a node can change its labels of this operator.
func labelsChanged(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*corev1.Node)
	after, okAfter := e.ObjectNew.(*corev1.Node)
	return !okBefore || !okAfter || nodelabel.IsUpgraded(before) != nodelabel.IsUpgraded(after) ||
		!maps.Equal(before.Labels, after.Labels) ||
		before.Annotations[topsv1.AnnotationOwnedLabels] != after.Annotations[topsv1.AnnotationOwnedLabels]
}

// countChanged reports whether an update of a NodeUpgrade changes whether its agent counts cards.
func countChanged(e event.UpdateEvent) bool {
	before, okBefore := e.ObjectOld.(*topsv1.NodeUpgrade)
	after, okAfter := e.ObjectNew.(*topsv1.NodeUpgrade)
	return !okBefore || !okAfter || (state.HostOf(before).Cards > 0) != (state.HostOf(after).Cards > 0)
}
