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

// maxPulls bounds concurrent pulls.
const maxPulls = 4

// pulls are the requested pulls of images.
type pulls struct {
	puller Puller
	// ended is called when a pull ends, with an error if it could not be started.
	ended func(id string, err error)
	// lifetime ends when the agent stops pulling.
	lifetime context.Context
	end      context.CancelFunc
	all      sync.WaitGroup

	mu sync.Mutex
	// begun are the pulls that this process started, newest last.
	begun    []topsv1.ImagePull
	underWay map[string]bool
	// refused maps the id of a pull that could not be started to the reason; no result is
	// recorded for it.
	refused map[string]string
}

func newPulls(p Puller, ended func(id string, err error)) *pulls {
	lifetime, end := context.WithCancel(context.Background())
	return &pulls{puller: p, ended: ended, lifetime: lifetime, end: end, underWay: map[string]bool{}, refused: map[string]string{}}
}

// close cancels the pulls and waits for them.
func (p *pulls) close() {
	p.end()
	p.all.Wait()
}

// begin starts to pull the images of a target unless that pull is running already. It
// returns false if too many pulls are running.
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

// any reports whether this process started a pull.
func (p *pulls) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.begun) > 0
}

// report returns the current state of the pulls that are reported or that this process
// started. It omits a pull without a recorded result, such as one that a killed agent left
// unfinished, and one whose pod is gone or has another newest revision: here maps the UIDs
// of this node's pods to their newest revisions, and is nil if unknown.
func (p *pulls) report(reported []topsv1.ImagePull, here map[types.UID]string) []topsv1.ImagePull {
	p.mu.Lock()
	begun := slices.Clone(p.begun)
	p.mu.Unlock()
	var report []topsv1.ImagePull
	for _, pull := range request.LastPulls(reported, begun) {
		if revision, known := here[pull.Pod.UID]; here != nil && (!known || revision != pull.Revision) {
			continue
		}
		if now := p.state(pull); now != nil {
			report = append(report, *now)
		}
	}
	return report
}

// state returns a pull with its current state, or nil if nothing is recorded of it.
func (p *pulls) state(pull topsv1.ImagePull) *topsv1.ImagePull {
	p.mu.Lock()
	underWay, refused := p.underWay[pull.ID], p.refused[pull.ID]
	p.mu.Unlock()
	return request.PullState(pull, underWay, refused, p.puller.Pulled(pull.ID))
}

// setImageReady sets PodImageReady on pods that have a newer revision. The operator sets it
// on the pods themselves, but the node knows it first.
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
