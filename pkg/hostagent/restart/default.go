package restart

import (
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// Default is what is remembered of the default runtime of an engine.
type Default struct {
	Engine task.Engine `json:"engine"`
	Name   string      `json:"name"`
	// Instance of the daemon that had it last.
	Instance string `json:"instance,omitempty"`
	// Since when it is the default; zero when unknown, because it was already when it was first seen.
	Since time.Time `json:"since,omitzero"`
}

// Seen returns what to remember once the engine was seen with facts, which may be for the first time. A new default came with the start
// of the daemon if that is another one; the same one has read its configuration again, now at the latest.
func (d Default) Seen(f *task.RuntimeFacts, now time.Time) Default {
	seen := Default{Engine: f.Engine, Name: f.Default, Instance: f.Instance}
	switch {
	case d == (Default{}) || f.Default == "":
	case d.Name == f.Default:
		seen.Since = d.Since
	case d.Instance != f.Instance && !f.Started.IsZero():
		seen.Since = f.Started.UTC()
	default:
		seen.Since = now.UTC()
	}
	return seen
}
