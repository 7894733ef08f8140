package ota

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// podRequester handles requests for single pods: to upgrade them, and to pull their images.
type podRequester struct{ *reconciler }

// UpgradePod requests that a pod of this node be replaced with one at the newest revision. It
// returns nil once the request, new or repeated, is durable on this node and submitted to the
// operator. Errors are *Refusal; a new request is kept only if it may have been submitted.
func (p podRequester) UpgradePod(ctx context.Context, namespace, name string) error {
	if refusal := request.ValidateNames(namespace, name); refusal != nil {
		return refusal
	}
	if err := p.acquire(ctx); err != nil {
		return request.Disconnected(err, request.NotKept)
	}
	defer p.release()
	ctx, cancel := context.WithTimeout(ctx, endpoint.CallTimeout)
	defer cancel()

	// Read the NodeUpgrade before the pod: a pod that still exists after its task was seen
	// to be final has really not been replaced.
	nodeUpgrade, err := p.observe(ctx)
	if err != nil {
		return request.Disconnected(err, request.NotKept)
	}
	pod, err := p.cluster.Pod(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return request.PodMissing(namespace, name)
	} else if err != nil {
		return request.Disconnected(fmt.Errorf("getting Pod %s/%s: %w", namespace, name, err), request.NotKept)
	}
	wanted, refusal := request.Decide(pod, p.nodeName)
	if refusal != nil {
		return refusal
	}
	if hold := p.journals.Hold.Hold; hold != nil {
		return request.NodeHeld(hold)
	}
	if p.pulls.isUnderWay(request.PullID(wanted)) {
		return request.Refuse(request.ReasonImageNotReady, "The images of the newest revision of pod %s/%s are being pulled: repeat the request when PodImageReady in GET /pods is no longer %s.", namespace, name, topsv1.ReasonWaitPullImage)
	}
	if err := p.send(ctx, nodeUpgrade, nil); err != nil { // a queued operation may have this request, and would keep it back
		return request.Disconnected(err, request.NotKept)
	}
	admitted, found, refusal := request.Admit(p.journals.Requests.List, nodeUpgrade.Status.Tasks, wanted, request.Seconds(p.clock.Now()))
	if refusal != nil {
		return refusal
	}
	if found {
		if err := p.submit(ctx, nodeUpgrade, p.decided(p.journals.Requests.List, nodeUpgrade)); err != nil {
			return request.Disconnected(err, request.KeptSince)
		}
		return nil
	}
	return p.accept(ctx, nodeUpgrade, admitted)
}

// accept makes a new request durable and shows it. Without a response to that, the request may have been submitted, and its pod
// replaced: then it is kept.
func (p podRequester) accept(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, r request.Request) error {
	p.log.Info("Recording upgrade request", "request", r.ID, "Pod", r.Pod.Namespace+"/"+r.Pod.Name, "revision", r.Revision)
	requests := slices.Concat(p.journals.Requests.List, []request.Request{r})
	if err := p.journals.Requests.Keep(requests); err != nil {
		p.retract(r.ID)
		return request.Refuse(request.ReasonNotRecorded, "The request could not be recorded on this node: %v. Make room or repair the disk, then repeat it.", err)
	}
	if err := p.submit(ctx, nodeUpgrade, request.Trim(p.decided(requests, nodeUpgrade))); isUnreachable(err) {
		p.wake()
		return request.Disconnected(err, request.Kept)
	} else if err != nil {
		p.retract(r.ID)
		return request.Disconnected(err, request.NotKept)
	}
	if err := p.journals.Requests.Keep(request.Trim(requests)); err != nil {
		p.log.Error(err, "Could not remove old requests from the journal")
	}
	return nil
}

// retract removes a request that was not accepted from the journal. The NodeUpgrade may
// show it nevertheless, so retract wakes the loop.
func (p podRequester) retract(id string) {
	p.log.Info("Withdrawing upgrade request", "request", id)
	if err := p.journals.Requests.Remove(id); err != nil {
		p.log.Error(err, "Could not take the request out of the journal: it may come back when the agent restarts")
	}
	p.wake()
}

// PullImages starts to pull the images of a pod's newest revision, if that may be
// requested. It returns nil once the pull is running. Errors are *Refusal.
func (p podRequester) PullImages(ctx context.Context, namespace, name string) error {
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
		return request.Refuse(request.ReasonImageNotReady, "There is no ControllerRevision %s-%s, so its images are not known: repeat it when PodNeedUpgrade of the pod was updated.", wanted.DaemonSet.Name, wanted.Revision)
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
