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
func Names(names []string) string {
	if len(names) <= namesShown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namesShown], ", "), len(names)-namesShown)
}

// Count is "1 node" or "3 nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
