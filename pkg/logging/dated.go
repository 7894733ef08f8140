package logging

import (
	"fmt"
	"sync"
	"time"
)

// datedRotation is small: such a file gets a few lines per upgrade.
var datedRotation = rotation{megabytes: 10, backups: 3, days: 365}

// Dated writes lines of the form "[Wed May 24 10:02:07 UTC 2023] text", which
// restart-docker.log has always had (contract statement 55). It is safe for
// concurrent use. A nil Dated writes nothing.
type Dated struct {
	mutex sync.Mutex
	out   *file
	now   func() time.Time
}

// NewDated returns a writer of lines to the rotating file at a path, which is
// made with its directory when absent. Times are in the zone that now returns
// them in. warn is called with the reason when writing stops to work; losing
// such a line never stops the work it tells of.
func NewDated(path string, now func() time.Time, warn func(error)) *Dated {
	return &Dated{out: openFile(path, datedRotation, warn), now: now}
}

// Printf writes one line. Line ends and what cannot be seen are escaped.
func (d *Dated) Printf(format string, arguments ...any) {
	if d == nil {
		return
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	line := "[" + d.now().Format(time.UnixDate) + "] " + escape(fmt.Sprintf(format, arguments...)) + "\n"
	_, _ = d.out.Write([]byte(line)) // its error is always nil
}
