package gcuresource

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// patience is how long something fails before a status tells it that is not
// about one component: an API server that is updated is back by then.
const patience = 10 * time.Second

// lastPasses are what passes left in this process, by the name of their gr.
type lastPasses struct {
	mu     sync.Mutex
	byName map[string]*lastPass
}

// of returns what the last pass over a gr left. Only the reconcile of that gr touches it.
func (l *lastPasses) of(gr string) *lastPass {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]*lastPass{}
	}
	if l.byName[gr] == nil {
		l.byName[gr] = &lastPass{applied: map[types.UID]state.Applied{}, cache: state.NewCache()}
	}
	return l.byName[gr]
}

// forget drops what is known of a gr that is gone.
func (l *lastPasses) forget(gr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byName, gr)
}

// lastPass is what the last pass over a gr left. Losing it costs one apply per
// object that changes nothing, and lets a failure be told later.
type lastPass struct {
	// applied is what was last applied to each object.
	applied map[types.UID]state.Applied
	// failingSince is since when every pass fails; zero when the last one did not.
	failingSince time.Time
	// rendered are the components of the gr.
	rendered rendering
	// cache is what was read and assessed.
	cache *state.Cache
}

// rendering is what component.Render made of a gr.
type rendering struct {
	uid         types.UID
	generation  int64
	annotations map[string]string
	components  []component.Rendered
}

// render returns the components of a gr, which nobody may change. They are the
// same as long as its spec and the annotations are that it hands on.
func (l *lastPass) render(gr *topsv1.GcuResource) ([]component.Rendered, error) {
	known, annotations := &l.rendered, component.Carried(gr)
	if known.uid == gr.UID && known.generation == gr.Generation && maps.Equal(known.annotations, annotations) {
		return known.components, nil
	}
	name, err := revision.Name(gr)
	if err != nil {
		return nil, err
	}
	components, err := component.Render(gr, name)
	if err != nil {
		return nil, err
	}
	l.rendered = rendering{gr.UID, gr.Generation, annotations, components}
	return components, nil
}

// failed notes that a pass failed.
func (l *lastPass) failed(now time.Time) {
	if l.failingSince.IsZero() {
		l.failingSince = now
	}
}

// failsLong reports whether passes have been failing for long.
func (l *lastPass) failsLong(now time.Time) bool {
	return !l.failingSince.IsZero() && now.Sub(l.failingSince) >= patience
}

// succeeded notes that a pass succeeded.
func (l *lastPass) succeeded() { l.failingSince = time.Time{} }
