package plaintext

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Line returns a text as one line without control characters: everything that is not printable
// is escaped, line ends and tabs too. Bytes that are no UTF-8 become U+FFFD.
func Line(text string) string { return escape(text, "", nil) }

// Text is Line for a text of several lines: line ends and tabs stay. Sequences in own, such as
// the colors that the program itself prints, stay too.
func Text(text string, own ...string) string { return escape(text, "\n\t", own) }

// escape escapes what is not printable, except the characters of kept and the sequences of own.
func escape(text, kept string, own []string) string {
	if harmless(text, kept) {
		return text
	}
	var out strings.Builder
	end := 0 // of a sequence of own
	for i, r := range text {
		for _, sequence := range own {
			if i >= end && strings.HasPrefix(text[i:], sequence) {
				end = i + len(sequence)
			}
		}
		if i < end || printable(r) || strings.ContainsRune(kept, r) {
			out.WriteRune(r)
		} else {
			out.WriteString(escaped(r))
		}
	}
	return out.String()
}

// harmless reports whether a text is ASCII with nothing to escape, as most texts are.
func harmless(text, kept string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && strings.IndexByte(kept, c) < 0 {
			return false
		}
	}
	return true
}

// printable reports whether a character is shown as itself: letters, marks, numbers,
// punctuation, symbols, and the spaces of ASCII and of Chinese text. Others move the cursor,
// change the direction of writing or are not visible. All that do something to a terminal are in
// the basic plane.
func printable(r rune) bool { return strconv.IsPrint(r) || r == '\u3000' || r > 0xffff }

// escaped returns a character of the basic plane escaped as in JSON.
func escaped(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Writer passes on Text of what is written to it. A character must not be split between two
// writes; those of fmt and encoding/json split none.
type Writer struct{ out io.Writer }

// NewWriter returns a Writer around another one.
func NewWriter(out io.Writer) Writer { return Writer{out} }

// Write implements io.Writer. On an error nothing counts as written.
func (w Writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Unwrap returns the writer around which a Writer is, or the same one: to find out whether it is
// a terminal, and for control sequences of the program itself.
func Unwrap(w io.Writer) io.Writer {
	if wrapped, ok := w.(Writer); ok {
		return wrapped.out
	}
	return w
}
