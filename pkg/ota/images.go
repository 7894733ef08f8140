package ota

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Puller pulls images through the container runtime of this node (pkg/hosttasks).
type Puller interface {
	// Pull pulls the images of a target that are not there, and returns when that has
	// ended. A pull that failed may be repeated under its id.
	Pull(ctx context.Context, id string, target topsv1.OperationTarget)
	// Pulled returns what is recorded of the last pull of an id, nil for nothing.
	Pulled(id string) *topsv1.HostTaskResult
}

// podImageReady is the condition with which OpenYurt tells whether the images of the
// newest revision are on the node. It is in the answers of GET /pods only: see
// docs/adr/0012-ota-endpoint.md.
const podImageReady corev1.PodConditionType = "PodImageReady"

// Reasons of podImageReady, as in OpenYurt.
const (
	waitPullImage    = "WaitPullImage"
	pullImageFail    = "PullImageFail"
	pullImageSuccess = "PullImageSuccess"
)

// maxPulls bounds the pulls that are under way.
const maxPulls = 4

// pulls are the pulls of images that were asked for.
type pulls struct {
	puller Puller
	// lifetime ends when nothing is to be pulled any more.
	lifetime context.Context
	end      context.CancelFunc
	all      sync.WaitGroup

	mu       sync.Mutex
	underWay map[string]bool
}

func newPulls(p Puller) *pulls {
	lifetime, end := context.WithCancel(context.Background())
	return &pulls{puller: p, lifetime: lifetime, end: end, underWay: map[string]bool{}}
}

// close ends what is under way.
func (p *pulls) close() {
	p.end()
	p.all.Wait()
}

// begin pulls the images of a target, unless that is under way. It tells whether there
// was room.
func (p *pulls) begin(id string, target topsv1.OperationTarget) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.underWay[id]:
		return true
	case len(p.underWay) >= maxPulls:
		return false
	}
	p.underWay[id] = true
	p.all.Go(func() {
		p.puller.Pull(p.lifetime, id, target)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.underWay, id)
	})
	return true
}

func (p *pulls) isUnderWay(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.underWay[id]
}

// pullID names the pull of the images of a pod's newest revision.
func pullID(v verdict) string { return "pull-" + requestID(v, 1) }

// Pull begins to pull the images of the newest revision of a pod that may be asked for.
// It returns nil when that is under way. Its errors are *Refusal.
func (in *Inbox) Pull(ctx context.Context, namespace, name string) error {
	if refusal := validateNames(namespace, name); refusal != nil {
		return refusal
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pod, err := in.cluster.Pod(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return podMissing(namespace, name)
	} else if err != nil {
		return disconnected(err, wishNotKept)
	}
	v := decide(pod, in.nodeName)
	if v.Refusal != nil {
		return v.Refusal
	}
	target, err := in.target(ctx, v.DaemonSet, v.Revision)
	switch {
	case err != nil:
		return disconnected(err, wishNotKept)
	case target == nil:
		return refuse(ReasonImageNotReady, "There is no ControllerRevision %s-%s, so its images are not known: repeat it when PodNeedUpgrade of the pod was written anew.", v.DaemonSet.Name, v.Revision)
	}
	in.log.Info("Pulling the images of a newer revision", "Pod", namespace+"/"+name, "revision", v.Revision, "images", target.Images)
	if !in.pulls.begin(pullID(v), topsv1.OperationTarget{
		DaemonSet: v.DaemonSet, Revision: v.Revision, Images: target.Images, PullSecrets: target.PullSecrets,
	}) {
		return refuse(ReasonTooMany, "%d pulls are under way on this node: wait until one has ended.", maxPulls)
	}
	return nil
}

// addImageReady adds what became of pulls to pods that have a newer revision. No other
// condition is touched.
func (in *Inbox) addImageReady(pods *corev1.PodList) {
	for i := range pods.Items {
		pod := &pods.Items[i]
		if v := decide(pod, in.nodeName); v.Refusal == nil && daemonset.NeedUpgrade(pod) != nil {
			if condition := in.imageReady(v); condition != nil {
				pod.Status.Conditions = append(pod.Status.Conditions, *condition)
			}
		}
	}
}

// imageReady says what became of the pull of a pod's newest revision, nil when none was
// asked for, or the agent died over it.
func (in *Inbox) imageReady(v verdict) *corev1.PodCondition {
	id := pullID(v)
	c := &corev1.PodCondition{Type: podImageReady, Status: corev1.ConditionFalse, Message: topsv1.PodNeedUpgradeMessagePrefix + v.Revision}
	result := in.pulls.puller.Pulled(id)
	switch {
	case in.pulls.isUnderWay(id):
		c.Reason = waitPullImage
	case result == nil || !result.State.Final():
		return nil
	case result.State == topsv1.HostTaskDone:
		c.Status, c.Reason = corev1.ConditionTrue, pullImageSuccess
	default:
		c.Reason, c.Message = pullImageFail, c.Message+": "+result.Message
	}
	if result != nil && result.EndTime != nil {
		c.LastTransitionTime = *result.EndTime
	}
	return c
}
