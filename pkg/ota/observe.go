package ota

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// observe returns the NodeUpgrade of this node, which it creates when there is
// none, and brings the entries up to date with it.
func (in *Inbox) observe(ctx context.Context) (*topsv1.NodeUpgrade, error) {
	nodeUpgrade, err := in.ensureNodeUpgrade(ctx)
	if err != nil {
		return nil, err
	}
	entries := in.entries
	if in.incomplete {
		if err := in.adoptBook(nodeUpgrade); err != nil {
			return nil, fmt.Errorf("taking over the operations shown before: %w", err)
		}
		entries = adopt(entries, nodeUpgrade.Status.Requests)
	}
	in.followOperations(nodeUpgrade.Status.Tasks)
	if err := in.keep(trim(settle(entries, nodeUpgrade.Status.Tasks))); err != nil {
		if in.incomplete {
			return nil, fmt.Errorf("taking over the requests shown before: %w", err)
		}
		// What is not recorded now can be observed again.
		in.log.Error(err, "Could not record what became of the requests")
		return nodeUpgrade, nil
	}
	in.incomplete = false
	in.publish(nodeUpgrade)
	return nodeUpgrade, nil
}

// keep makes entries what the journal holds. On an error it leaves the entries
// as they were; the journal may hold some of the new ones.
func (in *Inbox) keep(entries []entry) error {
	if err := in.journal.Change(changes(in.entries, entries)); err != nil {
		return err
	}
	in.entries = entries
	return nil
}

// show applies entries to the status of the NodeUpgrade when it says anything else.
func (in *Inbox) show(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, entries []entry) error {
	agent := in.agent
	agent.Hold = in.book.hold
	wanted := topsv1.NodeUpgradeStatus{
		Agent: &agent, Requests: requests(entries), Pulls: in.pulls.report(nodeUpgrade.Status.Pulls, in.seenNode.newestOf()),
	}
	if equality.Semantic.DeepEqual(nodeUpgrade.Status.Agent, wanted.Agent) &&
		equality.Semantic.DeepEqual(nodeUpgrade.Status.Requests, wanted.Requests) &&
		equality.Semantic.DeepEqual(nodeUpgrade.Status.Pulls, wanted.Pulls) {
		return nil
	}
	in.log.V(4).Info("Applying the requests of this node", "requests", len(wanted.Requests), "pulls", len(wanted.Pulls), "before", len(nodeUpgrade.Status.Requests))
	err := in.cluster.ApplyStatus(ctx, FieldManager, &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: nodeUpgrade.Name, UID: nodeUpgrade.UID},
		Status:     wanted,
	})
	if err != nil {
		return fmt.Errorf("applying status of NodeUpgrade %s: %w", nodeUpgrade.Name, err)
	}
	return nil
}

// ensureNodeUpgrade returns the NodeUpgrade that is owned by this node's Node
// object, and creates it when there is none.
func (in *Inbox) ensureNodeUpgrade(ctx context.Context) (*topsv1.NodeUpgrade, error) {
	node, err := in.cluster.Node(ctx, in.nodeName)
	if err != nil {
		return nil, fmt.Errorf("getting Node %s: %w", in.nodeName, err)
	}
	nodeUpgrade, err := in.cluster.NodeUpgrade(ctx, in.nodeName)
	if apierrors.IsNotFound(err) {
		nodeUpgrade, err = in.createNodeUpgrade(ctx, node)
	}
	if err != nil {
		return nil, fmt.Errorf("getting NodeUpgrade %s: %w", in.nodeName, err)
	}
	if err := usable(nodeUpgrade, node); err != nil {
		return nil, err
	}
	return nodeUpgrade, nil
}

func (in *Inbox) createNodeUpgrade(ctx context.Context, node *corev1.Node) (*topsv1.NodeUpgrade, error) {
	in.log.Info("Creating NodeUpgrade", "NodeUpgrade", node.Name, "nodeUID", node.UID)
	created, err := in.cluster.CreateNodeUpgrade(ctx, FieldManager, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID,
		}},
	}})
	if apierrors.IsAlreadyExists(err) {
		return in.cluster.NodeUpgrade(ctx, node.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("creating it: %w", err)
	}
	return created, nil
}

// usable returns an error when the NodeUpgrade is about to vanish, or was made
// for an earlier Node of the same name and will.
func usable(nodeUpgrade *topsv1.NodeUpgrade, node *corev1.Node) error {
	if nodeUpgrade.DeletionTimestamp != nil {
		return &unusableError{fmt.Sprintf("NodeUpgrade %s is being deleted: wait until it is gone", nodeUpgrade.Name)}
	}
	for _, owner := range nodeUpgrade.OwnerReferences {
		if owner.Kind == "Node" && owner.UID == node.UID {
			return nil
		}
	}
	return &unusableError{fmt.Sprintf("NodeUpgrade %[1]s does not belong to the present Node %[1]s (UID %[2]s) but to an earlier one: wait until it is removed, or delete it with kubectl delete nodeupgrade %[1]s",
		nodeUpgrade.Name, node.UID)}
}
