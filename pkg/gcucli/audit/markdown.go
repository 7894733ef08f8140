package audit

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// unknown stands for a user who is not known.
const unknown = "not recorded"

// fact is a line at the head of a report.
type fact struct{ Name, Value string }

// Facts are the head of the report.
func (r *Report) Facts() []fact {
	state := r.State
	if r.Offline != "" {
		state += " (" + r.Offline + ")"
	}
	facts := []fact{
		{"State", state},
		{"Asked by", cmp.Or(r.AskedBy, unknown)},
		{"Began", clock(r.Began)},
	}
	if r.Ended != nil {
		facts = append(facts, fact{"Ended", clock(*r.Ended)})
	}
	facts = append(facts, fact{"Took", span(r.Seconds)}, fact{"Revision of the spec", cmp.Or(r.Spec, unknown)}, fact{"Revision of the rollout", r.Revision})
	if r.Limit != "" {
		facts = append(facts, fact{"Limited to", r.Limit})
	}
	if r.Result != nil {
		facts = append(facts, fact{"Result of the plan", fmt.Sprintf("%d done, %d failed, %d not done", r.Result.Done, r.Result.Fail, r.Result.Undo)})
	}
	return append(facts, fact{"Report of", clock(r.Time)})
}

// Title of the report.
func (r *Report) Title() string { return "Upgrade of gr " + r.GcuResource }

// Failed returns the work that failed.
func (r *Report) Failed() []Work {
	var list []Work
	for _, w := range r.Nodes {
		if w.failed() {
			list = append(list, w)
		}
	}
	return list
}

// Markdown writes the report as a page of Markdown. What agents and users wrote is text in it, never markup.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", plain(r.Title()))
	facts := make([][]string, 0, len(r.Facts()))
	for _, f := range r.Facts() {
		facts = append(facts, []string{f.Name, f.Value})
	}
	table(&b, []string{"", ""}, facts)
	if len(r.Changes) > 0 {
		b.WriteString("\n## What changed\n\n")
		items(&b, r.Changes)
	}
	b.WriteString("\n## Timeline\n\n")
	moments := make([][]string, 0, len(r.Timeline))
	for _, m := range r.Timeline {
		moments = append(moments, []string{clock(m.Time), m.What, m.Subject, count(m.Nodes), m.By, m.Message})
	}
	table(&b, []string{"Time", "What", "Subject", "Nodes", "By", "Message"}, moments)
	if failed := r.Failed(); len(failed) > 0 {
		b.WriteString("\n## What failed\n\n")
		lines := make([]string, 0, len(failed))
		for i := range failed {
			lines = append(lines, failed[i].failure())
		}
		items(&b, lines)
	}
	b.WriteString("\n## Nodes\n\n")
	work := make([][]string, 0, len(r.Nodes))
	for i := range r.Nodes {
		w := &r.Nodes[i]
		work = append(work, []string{w.Node, w.What, clock(w.Began), w.took(r.Time), w.Result, w.Details()})
	}
	table(&b, []string{"Node", "What", "Began", "Took", "Result", "Details"}, work)
	if len(r.Missing) > 0 {
		b.WriteString("\n## What is not here\n\n")
		items(&b, r.Missing)
	}
	return b.String()
}

// failure describes a failure in one line.
func (w *Work) failure() string {
	task := ""
	if w.Tasks != nil && len(w.Tasks.Fail) > 0 {
		task = strings.Join(w.Tasks.Fail, ", ") + ": "
	}
	return w.Node + ": " + task + cmp.Or(w.Message, w.Reason, w.Result)
}

// took says how long it took, or has taken until now.
func (w *Work) took(now time.Time) string {
	if w.endUnknown {
		return "not known"
	}
	return span(w.seconds(now))
}

// Details are the rest of what is known of a piece of work.
func (w *Work) Details() string {
	var parts []string
	if w.GoesBack {
		parts = append(parts, "going back")
	}
	if w.RequestTime != nil {
		parts = append(parts, "requested on the node at "+clock(*w.RequestTime))
	}
	if w.Reason != "" {
		parts = append(parts, w.Reason)
	}
	if w.Message != "" {
		parts = append(parts, w.Message)
	}
	if t := w.Tasks; t != nil {
		parts = append(parts, tasks(t))
	}
	return strings.Join(parts, "; ")
}

func tasks(t *topsv1.OperationResult) string {
	said := message.Count(len(t.Done), "task") + " done"
	if len(t.Fail) > 0 {
		said += ", failed: " + strings.Join(t.Fail, ", ")
	}
	if len(t.Undo) > 0 {
		said += fmt.Sprintf(", %d not done", len(t.Undo))
	}
	return said
}

func table(b *strings.Builder, header []string, rows [][]string) {
	if len(rows) == 0 {
		b.WriteString("None.\n")
		return
	}
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, row := range rows {
		b.WriteString("|")
		for _, c := range row {
			b.WriteString(" " + plain(c) + " |")
		}
		b.WriteString("\n")
	}
}

func items(b *strings.Builder, list []string) {
	for _, item := range list {
		b.WriteString("- " + plain(item) + "\n")
	}
}

// markup are the characters that mean something in Markdown, within a line.
var markup = strings.NewReplacer(`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, "&", `\&`, "~", `\~`)

// plain makes a text harmless in Markdown and on a terminal.
func plain(text string) string { return markup.Replace(plaintext.Line(text)) }

func clock(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

// span returns a time as in 1h2m3s.
func span(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }

func count(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
