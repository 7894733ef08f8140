package ota

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// imagePuller pulls images that the person at the node asks for.
type imagePuller struct{ *reconciler }

// PullImages begins to pull the images of the newest revision of a pod that may be asked for.
// It returns nil when that is under way. Its errors are *Refusal.
func (p imagePuller) PullImages(ctx context.Context, namespace, name string) error {
	if refusal := request.ValidateNames(namespace, name); refusal != nil {
		return refusal
	}
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()
	pod, err := p.cluster.Pod(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return request.PodMissing(namespace, name)
	} else if err != nil {
		return request.Disconnected(err, request.NotKept)
	}
	wanted, refusal := request.Decide(pod, p.nodeName)
	if refusal != nil {
		return refusal
	}
	target, err := p.node.template(ctx, wanted.DaemonSet, wanted.Revision)
	switch {
	case err != nil:
		return request.Disconnected(err, request.NotKept)
	case target == nil:
		return request.Refuse(request.ReasonImageNotReady, "There is no ControllerRevision %s-%s, so its images are not known: repeat it when PodNeedUpgrade of the pod was written anew.", wanted.DaemonSet.Name, wanted.Revision)
	}
	p.log.Info("Pulling the images of a newer revision", "Pod", namespace+"/"+name, "revision", wanted.Revision, "images", target.Images)
	if !p.pulls.begin(request.PullOf(wanted, request.Seconds(p.clock.Now())), topsv1.OperationTarget{
		DaemonSet: wanted.DaemonSet, Revision: wanted.Revision, Images: target.Images, PullSecrets: target.PullSecrets,
	}) {
		return request.Refuse(request.ReasonTooMany, "%d pulls are under way on this node: wait until one has ended.", maxPulls)
	}
	p.wake()
	return nil
}
