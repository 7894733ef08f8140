package ota

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// statusReader serves reads.
type statusReader struct{ *reconciler }

// Pods returns the pods of this node, live from the API server with a nil stale, or, while
// it is away, as last seen at stale.
func (v statusReader) Pods(ctx context.Context) (pods *corev1.PodList, stale *metav1.Time, err error) {
	node, err := v.node.look(ctx, false)
	if err != nil {
		last, lost := v.node.last()
		if lost != nil {
			return nil, nil, request.Disconnected(errors.Join(err, lost), "Repeat it when the connection is back.")
		}
		node, stale = last, &last.Time
	}
	pods = &node.Pods
	v.pulls.setImageReady(pods, v.nodeName)
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if pods.Items == nil {
		pods.Items = []corev1.Pod{}
	}
	return pods, stale, nil
}

// Status returns the state of this node.
func (v statusReader) Status(ctx context.Context) response.Status {
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()
	node, err := v.node.look(ctx, true)
	connected := err == nil
	var asOf *metav1.Time
	if err != nil {
		v.log.V(1).Info("Cannot look at this node now", "cause", err.Error())
		if node, err = v.node.last(); err == nil {
			asOf = &node.Time
		} else {
			node = &request.Node{Name: v.nodeName}
		}
	}
	now, _ := v.latest.read()
	status := response.StatusOf(node, now.operations, now.nodeUpgrade)
	status.Connected, status.AsOf, status.Hold = connected, asOf, now.hold
	return status
}
