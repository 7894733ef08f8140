package ota

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Puller pulls images through the container runtime of this node (pkg/hosttasks).
type Puller interface {
	// Pull pulls the images of a target that are not there, and returns when that has
	// ended. A pull that failed may be repeated under its id. The error says that it was
	// not begun.
	Pull(ctx context.Context, id string, target topsv1.OperationTarget) error
	// Pulled returns what is recorded of the last pull of an id, nil for nothing.
	Pulled(id string) *topsv1.HostTaskResult
}

// maxPulls bounds the pulls that are under way.
const maxPulls = 4

// pulls are the pulls of images that were asked for.
type pulls struct {
	puller Puller
	// ended is called when a pull has ended, with the error of one that was not begun.
	ended func(id string, err error)
	// lifetime ends when nothing is to be pulled any more.
	lifetime context.Context
	end      context.CancelFunc
	all      sync.WaitGroup

	mu sync.Mutex
	// begun are those that this process began, the newest last, by their id.
	begun    []topsv1.ImagePull
	underWay map[string]bool
	// refused are those that were not begun, and why: nothing is recorded of them.
	refused map[string]string
}

func newPulls(p Puller, ended func(id string, err error)) *pulls {
	lifetime, end := context.WithCancel(context.Background())
	return &pulls{puller: p, ended: ended, lifetime: lifetime, end: end, underWay: map[string]bool{}, refused: map[string]string{}}
}

// close ends what is under way.
func (p *pulls) close() {
	p.end()
	p.all.Wait()
}

// begin pulls the images of a target, unless that is under way. It reports whether there
// was room.
func (p *pulls) begin(pull topsv1.ImagePull, target topsv1.OperationTarget) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.underWay[pull.ID]:
		return true
	case len(p.underWay) >= maxPulls:
		return false
	}
	p.underWay[pull.ID] = true
	p.begun = lastPulls(p.begun, []topsv1.ImagePull{pull})
	maps.DeleteFunc(p.refused, func(id, _ string) bool { return indexOfPull(p.begun, id) < 0 })
	p.all.Go(func() {
		err := p.puller.Pull(p.lifetime, pull.ID, target)
		p.mu.Lock()
		delete(p.underWay, pull.ID)
		delete(p.refused, pull.ID)
		if err != nil {
			p.refused[pull.ID] = err.Error()
		}
		p.mu.Unlock()
		p.ended(pull.ID, err)
	})
	return true
}

func (p *pulls) isUnderWay(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.underWay[id]
}

// any reports whether this process began a pull.
func (p *pulls) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.begun) > 0
}

// report returns how the pulls stand that are shown, or that this process began: what is
// recorded of each. One of which nothing is recorded is left out, as is one that the
// agent died over, and one for a pod that is not there any more or has another newest
// revision: here has the newest revision of each pod of this node, nil when not known.
func (p *pulls) report(shown []topsv1.ImagePull, here map[types.UID]string) []topsv1.ImagePull {
	p.mu.Lock()
	begun := slices.Clone(p.begun)
	p.mu.Unlock()
	var report []topsv1.ImagePull
	for _, pull := range lastPulls(shown, begun) {
		if revision, known := here[pull.Pod.UID]; here != nil && (!known || revision != pull.Revision) {
			continue
		}
		if now := p.standing(pull); now != nil {
			report = append(report, *now)
		}
	}
	return report
}

// standing returns how a pull stands, nil when nothing is recorded of it.
func (p *pulls) standing(pull topsv1.ImagePull) *topsv1.ImagePull {
	p.mu.Lock()
	underWay, refused := p.underWay[pull.ID], p.refused[pull.ID]
	p.mu.Unlock()
	result := p.puller.Pulled(pull.ID)
	pull.Message = ""
	switch {
	case underWay:
		pull.State = topsv1.PullPulling
		return &pull
	case refused != "":
		pull.State, pull.Message = topsv1.PullFailed, cut(refused, maxPullMessage)
		return &pull
	case result == nil || !result.State.Final():
		return nil
	case result.State == topsv1.HostTaskDone:
		pull.State = topsv1.PullReady
	default:
		pull.State, pull.Message = topsv1.PullFailed, cut(result.Message, maxPullMessage)
	}
	if result.EndTime != nil {
		pull.Time = *result.EndTime
	}
	return &pull
}

const (
	// keptPulls and maxPullMessage are limits of the API.
	keptPulls      = 20
	maxPullMessage = 1024
)

// lastPulls adds newer pulls to a list, at its end, and keeps the last ones.
func lastPulls(list, newer []topsv1.ImagePull) []topsv1.ImagePull {
	list = slices.DeleteFunc(slices.Clone(list), func(p topsv1.ImagePull) bool { return indexOfPull(newer, p.ID) >= 0 })
	list = append(list, newer...)
	return list[max(0, len(list)-keptPulls):]
}

func indexOfPull(list []topsv1.ImagePull, id string) int {
	return slices.IndexFunc(list, func(p topsv1.ImagePull) bool { return p.ID == id })
}

// cut shortens a text to at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// pullOf names the pull of the images of a pod's newest revision.
func pullOf(v verdict, now metav1.Time) topsv1.ImagePull {
	return topsv1.ImagePull{ID: pullID(v), DaemonSet: v.DaemonSet, Pod: v.Pod, Revision: v.Revision, Time: now}
}

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
	if !in.pulls.begin(pullOf(v, seconds(in.clock.Now())), topsv1.OperationTarget{
		DaemonSet: v.DaemonSet, Revision: v.Revision, Images: target.Images, PullSecrets: target.PullSecrets,
	}) {
		return refuse(ReasonTooMany, "%d pulls are under way on this node: wait until one has ended.", maxPulls)
	}
	in.wake()
	return nil
}

// setImageReady says on pods that have a newer revision how the pull of its images
// stands, as the operator does on the pods themselves: it is known here first. No other
// condition is touched.
func (in *Inbox) setImageReady(pods *corev1.PodList) {
	for i := range pods.Items {
		pod := &pods.Items[i]
		v := decide(pod, in.nodeName)
		if v.Refusal != nil {
			continue
		}
		pull := in.pulls.standing(pullOf(v, metav1.Time{}))
		if pull == nil {
			continue
		}
		c := imageReady(pull)
		if n := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == topsv1.PodImageReady }); n >= 0 {
			pod.Status.Conditions[n] = c
		} else {
			pod.Status.Conditions = append(pod.Status.Conditions, c)
		}
	}
}

// imageReady words a pull. Why it failed is told here only: the message on the pod is
// that of OpenYurt.
func imageReady(pull *topsv1.ImagePull) corev1.PodCondition {
	c := corev1.PodCondition{
		Type: topsv1.PodImageReady, Status: corev1.ConditionFalse, LastTransitionTime: pull.Time,
		Message: topsv1.PodNeedUpgradeMessagePrefix + pull.Revision,
	}
	switch pull.State {
	case topsv1.PullReady:
		c.Status, c.Reason = corev1.ConditionTrue, topsv1.ReasonPullImageSuccess
	case topsv1.PullFailed:
		c.Reason, c.Message = topsv1.ReasonPullImageFail, c.Message+": "+pull.Message
	default:
		c.Reason = topsv1.ReasonWaitPullImage
	}
	return c
}
