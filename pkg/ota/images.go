package ota

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

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
	p.begun = request.LastPulls(p.begun, []topsv1.ImagePull{pull})
	maps.DeleteFunc(p.refused, func(id, _ string) bool { return !request.HasPull(p.begun, id) })
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
	for _, pull := range request.LastPulls(shown, begun) {
		if revision, known := here[pull.Pod.UID]; here != nil && (!known || revision != pull.Revision) {
			continue
		}
		if now := p.state(pull); now != nil {
			report = append(report, *now)
		}
	}
	return report
}

// state returns how a pull stands, nil when nothing is recorded of it.
func (p *pulls) state(pull topsv1.ImagePull) *topsv1.ImagePull {
	p.mu.Lock()
	underWay, refused := p.underWay[pull.ID], p.refused[pull.ID]
	p.mu.Unlock()
	return request.PullState(pull, underWay, refused, p.puller.Pulled(pull.ID))
}

// setImageReady says on pods that have a newer revision how the pull of its images
// stands, as the operator does on the pods themselves: it is known here first.
func (p *pulls) setImageReady(pods *corev1.PodList, nodeName string) {
	for i := range pods.Items {
		wanted, refusal := request.Decide(&pods.Items[i], nodeName)
		if refusal != nil {
			continue
		}
		if pull := p.state(request.PullOf(wanted, metav1.Time{})); pull != nil {
			request.SetImageReady(&pods.Items[i], pull)
		}
	}
}
