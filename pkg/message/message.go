// Package message formats lists and counts for conditions, events and logs. A message must stay the
// same as long as nothing changes, and short in a large cluster: names are in the given order, at
// most five of them, and then how many more.
package message

import (
	"fmt"
	"strings"
)

// namesShown is the maximum number of names in a message.
const namesShown = 5

// Names joins names for a message: at most five, and "and N more" for the rest. The caller
// sorts them, so that messages are stable.
func Names(names []string) string { return NamesOf(names, len(names)) }

// NamesOf is Names for the first names of a longer list: total counts all.
func NamesOf(first []string, total int) string {
	shown := first[:min(len(first), namesShown)]
	if more := total - len(shown); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// Short returns a text of at most this many bytes: a longer one ends in "…".
func Short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// Count returns "1 node" or "3 nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
