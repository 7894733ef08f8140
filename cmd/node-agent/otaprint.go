package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/response"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Values of --output.
const (
	outputText = "text"
	outputJSON = "json"
)

// printer prints the agent's responses as JSON or text; on a terminal with a progress bar.
type printer struct {
	out, err io.Writer
	json     bool
	terminal bool
	// logLine is the last printed line, bar whether a bar is drawn below it.
	line string
	bar  bool
}

func newPrinter(out, err io.Writer, output string) *printer {
	file, isFile := plaintext.Unwrap(out).(*os.File)
	return &printer{out: out, err: err, json: output == outputJSON, terminal: isFile && term.IsTerminal(int(file.Fd()))}
}

func (p *printer) encode(v any) error {
	if err := json.NewEncoder(p.out).Encode(v); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// status prints a table of the components.
func (p *printer) status(s response.Status) error {
	if p.json {
		return p.encode(s)
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tRUNNING\tAVAILABLE\tOUTDATED\tSTRATEGY\tLAST OPERATION")
	for _, c := range s.Components {
		available, outdated, last := "", "", ""
		if c.Available != nil {
			available = cmp.Or(c.Available.Version, c.Available.Revision)
		}
		if c.NeedUpgrade != nil {
			outdated = map[bool]string{true: "yes", false: "no"}[*c.NeedUpgrade]
		}
		if c.LastOperation != nil {
			last = string(c.LastOperation.State) + " (" + c.LastOperation.ID + ")"
		}
		for _, cell := range []string{c.Component, cmp.Or(c.Running.Version, c.Running.Revision), available, outdated, c.Strategy} {
			fmt.Fprint(table, plaintext.Line(cell), "\t")
		}
		fmt.Fprintln(table, plaintext.Line(last))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if s.Hold != nil {
		fmt.Fprintf(p.out, "\nHeld%s\n", holdWords(s.Hold))
	}
	if s.AdministratorHold != nil {
		fmt.Fprintf(p.out, "\nHeld by an administrator%s\n", holdWords(s.AdministratorHold))
	}
	if s.AddressInUse != "" {
		fmt.Fprintf(p.out, "\nAnother process listens on %s: only the socket leads to the agent; never send the token there\n", s.AddressInUse)
	}
	switch {
	case s.Connected:
	case s.AsOf != nil:
		fmt.Fprintf(p.out, "\nThe API server cannot be used: this was seen at %s\n", s.AsOf.Format(time.RFC3339))
	default:
		fmt.Fprintln(p.out, "\nThe API server cannot be used, and nothing was seen before")
	}
	return nil
}

// holdWords describes a hold: its start and message.
func holdWords(h *topsv1.NodeHold) string {
	words := ""
	if !h.Since.IsZero() {
		words = " since " + h.Since.Format(time.RFC3339)
	}
	if h.Message != "" {
		words += ": " + plaintext.Line(h.Message)
	}
	return words
}

func (p *printer) hold(s response.Hold) error {
	if p.json {
		return p.encode(s)
	}
	text := "This node is not held"
	if s.Held {
		text = "This node is held: it is excluded from upgrades, and what is in flight continues"
	}
	if s.AdministratorHold != nil {
		text += "; an administrator holds it" + holdWords(s.AdministratorHold)
	}
	if s.Offline != "" {
		text += "; it is sent when the API server is reachable"
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

func (p *printer) operation(o response.Operation) error {
	if p.json {
		return p.encode(o)
	}
	_, err := fmt.Fprintln(p.out, lineOf(o))
	return err
}

// lineOf describes an operation in one line.
func lineOf(o response.Operation) string {
	words := []string{o.ID, string(o.State)}
	if o.Task != "" {
		words = append(words, o.Task)
	}
	if o.Message != "" {
		words = append(words, o.Message)
	}
	return plaintext.Line(strings.Join(words, "  "))
}

// barWidth is the number of characters of a bar.
const barWidth = 30

// news prints a changed operation.
func (p *printer) news(o response.Operation) {
	if p.json {
		_ = p.encode(o) // if the output is closed, the rest is lost too
		return
	}
	if line := lineOf(o); line != p.line {
		p.end()
		fmt.Fprintln(p.out, line)
		p.line = line
	}
	if !p.terminal || o.Progress.Total == 0 {
		return
	}
	p.end()
	full := barWidth * o.Progress.Done / o.Progress.Total
	fmt.Fprintf(p.out, "[%s%s] %d of %d", strings.Repeat("█", full), strings.Repeat("·", barWidth-full), o.Progress.Done, o.Progress.Total)
	p.bar = true
}

// lost prints that the agent is not responding.
func (p *printer) lost(err error) {
	p.end()
	fmt.Fprintf(p.err, "%v; trying again\n", err)
}

// end removes the bar.
func (p *printer) end() {
	if p.bar {
		fmt.Fprint(plaintext.Unwrap(p.out), "\r\x1b[K")
	}
	p.bar = false
}
