// Package progress shows the progress of a long command: one line per step, with its
// duration.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Printer writes progress lines. The zero value and a nil Printer write nothing.
type Printer struct {
	mu  sync.Mutex
	out io.Writer
}

// New returns a Printer that writes to out.
func New(out io.Writer) *Printer { return &Printer{out: out} }

// Printf writes one line.
func (p *Printer) Printf(format string, args ...any) {
	if p == nil || p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// An error writing progress must not stop the work.
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// Step runs fn and then writes the step and its duration. A failed step writes
// nothing; its error says what happened.
func (p *Printer) Step(done string, fn func() error) error {
	start := time.Now()
	if err := fn(); err != nil {
		return err
	}
	p.Printf("%-48s %6s", done, time.Since(start).Round(100*time.Millisecond))
	return nil
}
