package gcuresource

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// patience is how long something fails before a status tells it that is not
// about one component: an API server that is updated is back by then.
const patience = 10 * time.Second

// memory is what is known of grs, by name, between two passes. Losing it costs
// one apply per object that changes nothing, and tells a trouble later.
type memory struct {
	mu sync.Mutex
	// applied is what was last applied to each object.
	applied map[string]map[types.UID]Applied
	// failing is since when every pass fails.
	failing map[string]time.Time
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

// forget drops what is known of a gr that is gone.
func (m *memory) forget(gr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.applied, gr)
	delete(m.failing, gr)
}

// failed notes that a pass over a gr failed, and tells whether that lasts.
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

// lasts tells whether passes over a gr have been failing for long.
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
