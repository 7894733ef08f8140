package logging

import (
	"fmt"
	"sync"
	"time"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// datedRotation is small: the file gets a few lines per upgrade.
var datedRotation = rotation{megabytes: 10, backups: 3, days: 365}

// Dated writes lines of the form "[Wed May 24 10:02:07 UTC 2023] text", the format of
// restart-docker.log (contract statement 55). It is safe for concurrent use. A nil Dated
// writes nothing.
type Dated struct {
	mutex sync.Mutex
	out   *file
	now   func() time.Time
}

// NewDated returns a writer of lines to the rotating file at a path; the file and its
// directory are created if absent. Times are in the zone of now. warn is called with the
// cause when writing starts to fail, which never stops the caller.
func NewDated(path string, now func() time.Time, warn func(error)) *Dated {
	return &Dated{out: openFile(path, datedRotation, warn), now: now}
}

// Printf writes one line. Line ends and other unprintable characters are escaped.
func (d *Dated) Printf(format string, arguments ...any) {
	if d == nil {
		return
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	line := "[" + d.now().Format(time.UnixDate) + "] " + plaintext.Line(fmt.Sprintf(format, arguments...)) + "\n"
	_, _ = d.out.Write([]byte(line)) // its error is always nil
}
