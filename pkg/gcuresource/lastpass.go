package gcuresource

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// patience is how long a failure that is not a component's own must last before the status reports
// it: an API server that is being updated is back sooner.
const patience = 10 * time.Second

// lastPasses is what earlier passes left in this process, by the name of their gr.
type lastPasses struct {
	mu     sync.Mutex
	byName map[string]*lastPass
}

// of returns what the last pass over a gr left. Only the reconcile of that gr uses it.
func (l *lastPasses) of(gr string) *lastPass {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]*lastPass{}
	}
	if l.byName[gr] == nil {
		l.byName[gr] = &lastPass{applied: map[types.UID]state.Applied{}, rendered: map[component.Cluster]rendering{}, cache: state.NewCache()}
	}
	return l.byName[gr]
}

// forget drops the state of a deleted gr.
func (l *lastPasses) forget(gr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byName, gr)
}

// lastPass is what the last pass over a gr left. Losing it costs one apply without effect per
// object, delays the report of a failure, and lets a replacement that has begun wait for an earlier component.
type lastPass struct {
	// applied is what was last applied to each object.
	applied map[types.UID]state.Applied
	// begun are the components for which what they replace was deleted.
	begun map[string]bool
	// version is the resourceVersion of the gr when its status was last written; empty if it was not.
	version string
	// failingSince is when passes began to fail; zero if the last one did not.
	failingSince time.Time
	// rendered holds the components of the gr, by the Cluster that they were rendered for.
	rendered map[component.Cluster]rendering
	// cache holds what was read and assessed.
	cache *state.Cache
}

// rendering is the result of component.RenderIn for a gr.
type rendering struct {
	uid         types.UID
	generation  int64
	annotations map[string]string
	components  []component.Rendered
}

// render returns the components of a gr in a cluster, which callers must not change. They are cached until
// its spec or its carried annotations change.
func (l *lastPass) render(gr *topsv1.GcuResource, cluster component.Cluster) ([]component.Rendered, error) {
	known, annotations := l.rendered[cluster], component.UpgradeAnnotations(gr)
	if known.uid == gr.UID && known.generation == gr.Generation && maps.Equal(known.annotations, annotations) {
		return known.components, nil
	}
	name, err := revision.Name(gr)
	if err != nil {
		return nil, err
	}
	components, err := component.RenderIn(cluster, gr, name)
	if err != nil {
		return nil, err
	}
	l.rendered[cluster] = rendering{gr.UID, gr.Generation, annotations, components}
	return components, nil
}

// aheadOf reports whether a gr as read is older than the last write of its status: the cache may lag behind, and
// a status that equals the old one would not be written. The event of that write triggers no pass.
func (l *lastPass) aheadOf(gr *topsv1.GcuResource) bool {
	return l.version != "" && daemonset.Newer(l.version, gr.ResourceVersion)
}

// failed records that a pass failed.
func (l *lastPass) failed(now time.Time) {
	if l.failingSince.IsZero() {
		l.failingSince = now
	}
}

// failsLong reports whether passes have been failing for at least patience.
func (l *lastPass) failsLong(now time.Time) bool {
	return !l.failingSince.IsZero() && now.Sub(l.failingSince) >= patience
}

// succeeded records that a pass succeeded.
func (l *lastPass) succeeded() { l.failingSince = time.Time{} }
