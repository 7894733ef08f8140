package gcuresource

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// patience is how long something fails before a status tells it that is not
// about one component: an API server that is updated is back by then.
const patience = 10 * time.Second

// memory is what is known of grs, by name, between two passes. Losing it costs
// one apply per object that changes nothing, and lets a trouble be told later.
type memory struct {
	mu sync.Mutex
	// applied is what was last applied to each object.
	applied map[string]map[types.UID]Applied
	// failing is since when every pass fails.
	failing map[string]time.Time
	// rendered are the components of each gr.
	rendered map[string]rendering
	// kept is what was read and assessed of each gr.
	kept map[string]*kept
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
func (m *memory) render(gr *topsv1.GcuResource) ([]component.Rendered, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, annotations := m.rendered[gr.Name], component.Carried(gr)
	if known.uid == gr.UID && known.generation == gr.Generation && maps.Equal(known.annotations, annotations) {
		return known.components, nil
	}
	revision, err := revisionOf(gr)
	if err != nil {
		return nil, err
	}
	components, err := component.Render(gr, revision)
	if err != nil {
		return nil, err
	}
	if m.rendered == nil {
		m.rendered = map[string]rendering{}
	}
	m.rendered[gr.Name] = rendering{gr.UID, gr.Generation, annotations, components}
	return components, nil
}

// of returns what was applied for one gr. Only the reconcile of that gr touches it.
func (m *memory) of(gr string) map[types.UID]Applied {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applied == nil {
		m.applied = map[string]map[types.UID]Applied{}
	}
	if m.applied[gr] == nil {
		m.applied[gr] = map[types.UID]Applied{}
	}
	return m.applied[gr]
}

// keep returns what is kept of one gr. Only the reconcile of that gr touches it.
func (m *memory) keep(gr string) *kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[string]*kept{}
	}
	if m.kept[gr] == nil {
		m.kept[gr] = newKept()
	}
	return m.kept[gr]
}

// forget drops what is known of a gr that is gone.
func (m *memory) forget(gr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.applied, gr)
	delete(m.failing, gr)
	delete(m.rendered, gr)
	delete(m.kept, gr)
}

// failed notes that a pass over a gr failed, and reports whether that lasts.
func (m *memory) failed(gr string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing == nil {
		m.failing = map[string]time.Time{}
	}
	if _, known := m.failing[gr]; !known {
		m.failing[gr] = now
	}
	return now.Sub(m.failing[gr]) >= patience
}

// lasts reports whether passes over a gr have been failing for long.
func (m *memory) lasts(gr string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, known := m.failing[gr]
	return known && now.Sub(since) >= patience
}

// recovered notes that a pass over a gr succeeded.
func (m *memory) recovered(gr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failing, gr)
}
