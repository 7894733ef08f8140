package hostagent

import (
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/hostagent/restart"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/journal"
)

var defaultKind = journal.Kind[restart.Default]{
	ID:        func(d restart.Default) string { return "default-runtime-" + string(d.Engine) },
	IDPattern: regexp.MustCompile(`^default-runtime-(docker|containerd)$`),
}

// defaults remembers on disk when the default runtime of each engine was last changed: a restart of the
// engine may stop this process, a person may restart it, and while it restarts another engine may answer.
type defaults struct {
	clock clock.PassiveClock
	log   logr.Logger

	mutex   sync.Mutex
	journal *journal.Journal[restart.Default]
	last    map[task.Engine]restart.Default
}

func openDefaults(o Options) (*defaults, error) {
	kept, content, err := journal.Open(filepath.Join(o.StateDirectory, "runtime"), defaultKind, o.Log)
	if err != nil {
		return nil, err
	}
	d := &defaults{clock: o.Clock, log: o.Log, journal: kept, last: map[task.Engine]restart.Default{}}
	for _, v := range content.Values {
		d.last[v.Engine] = v
	}
	return d, nil
}

// since returns when an engine got its default runtime, zero if that is unknown. What cannot be
// written is forgotten with this process.
func (d *defaults) since(f *task.RuntimeFacts) time.Time {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	last := d.last[f.Engine]
	seen := last.Seen(f, d.clock.Now())
	if seen == last {
		return seen.Since
	}
	if err := d.journal.Put(seen); err != nil {
		d.log.Error(err, "Recording the default runtime failed", "runtime", seen.Name)
	}
	d.last[f.Engine] = seen
	return seen.Since
}
