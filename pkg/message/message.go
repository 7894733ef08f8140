// Package message words what people read in conditions, events and logs, the
// same everywhere.
package message

import (
	"fmt"
	"strings"
)

// namesShown is how many names a message has at most.
const namesShown = 5

// Names joins names for a message: at most five, and "and N more" for the rest.
// The caller sorts, so that a message is stable.
func Names(names []string) string { return NamesOf(names, len(names)) }

// NamesOf is Names for the first names of a list that is longer: total counts all.
func NamesOf(first []string, total int) string {
	shown := first[:min(len(first), namesShown)]
	if more := total - len(shown); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// Count is "1 node" or "3 nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
