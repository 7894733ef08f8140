package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// The terminal in the picture.
const (
	columns    = 140
	charWidth  = 7.25
	lineHeight = 17
	margin     = 14
)

// colored matches the words of the output that a terminal shows in a color, and the
// bar.
var colored = regexp.MustCompile(`#{2,}|>{2,}|x{2,}|o{3,}\.*|\b(?:Running|updated|complete)\b|\b(?:upgrading|Working|RollingOut|in-flight|pending|skipped)\b|\bfailed\b`)

// color returns the color of such a word, by its first letter.
func color(word string) string {
	switch {
	case strings.HasPrefix(word, "x"), word == "failed":
		return "#ff7b72"
	case strings.HasPrefix(word, "#"), word == "Running", word == "updated", word == "complete":
		return "#7ee787"
	case strings.HasPrefix(word, "o"):
		return "#8b949e"
	}
	return "#e3b341"
}

// picture draws a terminal with a command and its output as SVG, up to the first line
// after the report. Lines are truncated at the terminal's width.
func picture(command, output string) string {
	report, _, _ := strings.Cut(output, "\n\nWorking:")
	lines := append([]string{"$ " + command}, strings.Split(report, "\n")...)
	width, height := columns*charWidth+2*margin, len(lines)*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">
<title>%s</title>
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12" fill="#e6edf3" xml:space="preserve">
`, width, height, width, height, html.EscapeString(command))
	for i, line := range lines {
		if line == "" {
			continue
		}
		if len(line) > columns {
			line = line[:columns-1] + "…"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" textLength="%.1f">%s</text>`+"\n",
			margin, margin+(i+1)*lineHeight-5, float64(len([]rune(line)))*charWidth, paint(line))
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// paint marks up the colored words of a line.
func paint(line string) string {
	var b strings.Builder
	last := 0
	for _, at := range colored.FindAllStringIndex(line, -1) {
		word := line[at[0]:at[1]]
		b.WriteString(html.EscapeString(line[last:at[0]]))
		fmt.Fprintf(&b, `<tspan fill="%s">%s</tspan>`, color(word), html.EscapeString(word))
		last = at[1]
	}
	b.WriteString(html.EscapeString(line[last:]))
	return b.String()
}
