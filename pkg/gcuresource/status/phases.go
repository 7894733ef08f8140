package status

import (
	"fmt"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

// phaseOfAll returns the phase of the gr: the first of these phases that any component has,
// otherwise Running.
func phaseOfAll(words []string) string {
	for _, word := range []string{topsv1.PhaseFailed, topsv1.PhaseDeleting, topsv1.PhaseDeploying, topsv1.PhaseRollbacking, topsv1.PhaseUpgrading} {
		if slices.Contains(words, word) {
			return word
		}
	}
	return topsv1.PhaseRunning
}

// readyResource returns "ready/total": how many components are Running, and of how many (decision D4, section 2.10).
func readyResource(words []string) string {
	return fmt.Sprintf("%d/%d", occurrences(words, topsv1.PhaseRunning), len(words))
}

func phaseWords(status *topsv1.GcuResourceStatus) []string {
	words := make([]string, 0, len(status.ResourceStatuses))
	for _, rs := range status.ResourceStatuses {
		words = append(words, rs.Status)
	}
	return words
}

func occurrences(words []string, of ...string) int {
	n := 0
	for _, w := range words {
		if slices.Contains(of, w) {
			n++
		}
	}
	return n
}

// deployMessage returns the progress of the deployment, and what the first missing component
// waits for.
func deployMessage(status *topsv1.GcuResourceStatus) string {
	words := phaseWords(status)
	message := fmt.Sprintf("%d of %s run", occurrences(words, topsv1.PhaseRunning, topsv1.PhaseUpgrading, topsv1.PhaseRollbacking), message.Count(len(words), "component"))
	for _, rs := range status.ResourceStatuses {
		if rs.Status == topsv1.PhaseDeploying {
			return message + "; " + rs.Name + ": " + rs.Message
		}
	}
	return message
}

// failureMessage names every failed component with its cause.
func failureMessage(status *topsv1.GcuResourceStatus) string {
	var causes []string
	for _, rs := range status.ResourceStatuses {
		if rs.Status == topsv1.PhaseFailed {
			causes = append(causes, rs.Name+": "+rs.Message)
		}
	}
	return strings.Join(causes, "; ")
}
