package ota

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// publisher maintains the NodeUpgrade of this node and the agent's part of its status.
type publisher struct {
	nodeName string
	agent    topsv1.AgentStatus
	cluster  Cluster
	log      logr.Logger
}

// read returns the NodeUpgrade owned by this node's Node object, and creates it if needed.
func (p *publisher) read(ctx context.Context) (*topsv1.NodeUpgrade, error) {
	node, err := p.cluster.Node(ctx, p.nodeName)
	if err != nil {
		return nil, fmt.Errorf("getting Node %s: %w", p.nodeName, err)
	}
	nodeUpgrade, err := p.cluster.NodeUpgrade(ctx, p.nodeName)
	if apierrors.IsNotFound(err) {
		nodeUpgrade, err = p.create(ctx, node)
	}
	if err != nil {
		return nil, fmt.Errorf("getting NodeUpgrade %s: %w", p.nodeName, err)
	}
	if err := usable(nodeUpgrade, node); err != nil {
		return nil, err
	}
	return nodeUpgrade, nil
}

func (p *publisher) create(ctx context.Context, node *corev1.Node) (*topsv1.NodeUpgrade, error) {
	p.log.Info("Creating NodeUpgrade", "NodeUpgrade", node.Name, "nodeUID", node.UID)
	created, err := p.cluster.CreateNodeUpgrade(ctx, FieldManager, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID,
		}},
	}})
	if denial.IsAlreadyExists(err) {
		return p.cluster.NodeUpgrade(ctx, node.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("creating it: %w", err)
	}
	return created, nil
}

// usable returns an error if the NodeUpgrade is being deleted, or belongs to an earlier
// Node of the same name and will be garbage collected.
func usable(nodeUpgrade *topsv1.NodeUpgrade, node *corev1.Node) error {
	if nodeUpgrade.DeletionTimestamp != nil {
		return &unusableError{fmt.Sprintf("NodeUpgrade %s is being deleted: wait until it is gone", nodeUpgrade.Name)}
	}
	for _, owner := range nodeUpgrade.OwnerReferences {
		if owner.Kind == "Node" && owner.UID == node.UID {
			return nil
		}
	}
	return &unusableError{fmt.Sprintf("NodeUpgrade %[1]s does not belong to the current Node %[1]s (UID %[2]s) but to an earlier one: wait until it is removed, or delete it with kubectl delete nodeupgrade %[1]s",
		nodeUpgrade.Name, node.UID)}
}

// apply applies the agent's part of the status of the NodeUpgrade if it differs.
func (p *publisher) apply(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, hold *topsv1.NodeHold, requests []topsv1.UpgradeRequest, pulls []topsv1.ImagePull) error {
	agent := p.agent
	agent.Hold = hold
	wanted := topsv1.NodeUpgradeStatus{Agent: &agent, Requests: requests, Pulls: pulls}
	if equality.Semantic.DeepEqual(nodeUpgrade.Status.Agent, wanted.Agent) &&
		equality.Semantic.DeepEqual(nodeUpgrade.Status.Requests, wanted.Requests) &&
		equality.Semantic.DeepEqual(nodeUpgrade.Status.Pulls, wanted.Pulls) {
		return nil
	}
	p.log.V(4).Info("Applying the requests of this node", "requests", len(wanted.Requests), "pulls", len(wanted.Pulls), "before", len(nodeUpgrade.Status.Requests))
	err := p.cluster.ApplyStatus(ctx, FieldManager, &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: nodeUpgrade.Name, UID: nodeUpgrade.UID},
		Status:     wanted,
	})
	if err != nil {
		return fmt.Errorf("applying status of NodeUpgrade %s: %w", nodeUpgrade.Name, err)
	}
	return nil
}

// unusableError means that the API server is available, but the NodeUpgrade of this node
// cannot be used.
type unusableError struct{ message string }

func (e *unusableError) Error() string { return e.message }

// isUnreachable reports whether an error means that the API server is unavailable, not that it
// rejected the call, or a webhook denied it with whatever code: a write may have taken effect.
func isUnreachable(err error) bool {
	if err == nil || denial.ByAdmission(err) {
		return false
	}
	if _, unusable := errors.AsType[*unusableError](err); unusable {
		return false
	}
	if _, refused := errors.AsType[*request.Refusal](err); refused { // by this node
		return false
	}
	var answered apierrors.APIStatus
	if errors.As(err, &answered) {
		code := answered.Status().Code
		return code >= 500 || code == 429 || code == 0
	}
	return true
}
