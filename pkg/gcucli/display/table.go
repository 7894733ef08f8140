package display

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Style is the style of text output.
type Style struct {
	// Color marks words by their Tone, for terminals.
	Color bool
	// Wide shows more columns.
	Wide bool
	// Now is the reference time for ages.
	Now time.Time
}

// Tone is the meaning of a word, shown as its color.
type Tone int

// Tones.
const (
	Plain Tone = iota
	Good
	Busy
	Bad
)

// codes are the colors of the tones: green, yellow, red.
var codes = map[Tone]string{Good: "\x1b[32m", Busy: "\x1b[33m", Bad: "\x1b[31m"}

// uncolored ends a color.
const uncolored = "\x1b[0m"

// paint colors text of one line by its tone if colors are enabled.
func (s Style) paint(t Tone, text string) string {
	text, color := plaintext.Line(text), codes[t]
	if !s.Color || color == "" || text == "" {
		return text
	}
	return color + text + uncolored
}

// Colors returns the control sequences in text of this style.
func (s Style) Colors() []string {
	if !s.Color {
		return nil
	}
	return append(slices.Collect(maps.Values(codes)), uncolored)
}

// age returns how long ago a time was, "" for zero.
func (s Style) age(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, s.Now.Sub(t.Time)))
}

// Cell is the text of one cell of a Table, printed in one line.
type Cell struct {
	Text string
	Tone Tone
}

// columns measures text in columns of a terminal: a Chinese character has two. Characters of ambiguous
// width, such as the ellipsis, have one in any locale.
var columns = runewidth.Condition{}

// width returns the number of columns that are printed.
func (c Cell) width() int { return columns.StringWidth(plaintext.Line(c.Text)) }

// cells returns cells without a tone.
func cells(texts ...string) []Cell {
	list := make([]Cell, 0, len(texts))
	for _, t := range texts {
		list = append(list, Cell{Text: t})
	}
	return list
}

// Table has a header and rows. Empty columns are omitted.
type Table struct {
	Header []string
	Rows   [][]Cell
	// Indent is printed before every line.
	Indent string
}

// gap separates columns, as in kubectl.
const gap = "   "

// Text renders the table; the last column is not padded.
func (t Table) Text(s Style) string {
	widths := t.widths()
	var b strings.Builder
	t.line(&b, s, widths, cells(t.Header...))
	for _, row := range t.Rows {
		t.line(&b, s, widths, row)
	}
	return b.String()
}

// widths returns the widths of the columns; 0 for an omitted one.
func (t Table) widths() []int {
	widths := make([]int, len(t.Header))
	for _, row := range t.Rows {
		for i, c := range row {
			widths[i] = max(widths[i], c.width())
		}
	}
	for i, w := range widths {
		if w > 0 {
			widths[i] = max(w, columns.StringWidth(t.Header[i]))
		}
	}
	return widths
}

func (t Table) line(b *strings.Builder, s Style, widths []int, row []Cell) {
	pad := 0
	b.WriteString(t.Indent)
	for i, c := range row {
		if widths[i] == 0 {
			continue
		}
		if c.Text != "" {
			b.WriteString(strings.Repeat(" ", pad))
			b.WriteString(s.paint(c.Tone, c.Text))
			pad = 0
		}
		pad += widths[i] - c.width() + len(gap)
	}
	b.WriteByte('\n')
}
