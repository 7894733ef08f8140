package daemonset

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
)

// Holder is who holds a node.
type Holder string

const (
	// ByNode is a hold set locally on the node, through its node agent.
	ByNode Holder = "node"
	// ByAdministrator is a hold annotated on the NodeUpgrade.
	ByAdministrator Holder = "administrator"
)

// Hold excludes a node from upgrades: no rollout starts anything on it. Operations in
// flight continue. Holds are comparable.
type Hold struct {
	By Holder
	// User who set it with the plugin, "" if that is not known.
	User string
	// Since is zero if unknown.
	Since time.Time
	// Message of the holder, or "".
	Message string
}

// HoldsOf returns the holds of a node from its NodeUpgrade, which may be nil: at most one
// per Holder. The annotation is a hold with any value, so that a mistake in it does not
// start an upgrade.
func HoldsOf(upgrade *topsv1.NodeUpgrade) []Hold {
	if upgrade == nil {
		return nil
	}
	var holds []Hold
	if a := upgrade.Status.Agent; a != nil && a.Hold != nil {
		holds = append(holds, Hold{By: ByNode, Since: a.Hold.Since.Time, Message: a.Hold.Message})
	}
	if value, ok := upgrade.Annotations[topsv1.AnnotationHold]; ok {
		h := Hold{By: ByAdministrator, Message: strings.TrimSpace(value)}
		first, rest, _ := strings.Cut(h.Message, " ")
		if since, err := time.Parse(time.RFC3339, first); err == nil {
			h.Since, h.Message = since, strings.TrimSpace(rest)
		}
		if asked := askedby.Of(upgrade.Annotations); asked.Verb == askedby.Hold && asked.Time.Equal(h.Since) {
			h.User = asked.User
		}
		holds = append(holds, h)
	}
	return holds
}

// OfAdministrator returns the hold of an administrator on a node, which kubectl gcu release ends; nil for
// none.
func OfAdministrator(upgrade *topsv1.NodeUpgrade) *Hold {
	for _, h := range HoldsOf(upgrade) {
		if h.By == ByAdministrator {
			return &h
		}
	}
	return nil
}

// HoldValue returns the value of AnnotationHold for a hold since a time.
func HoldValue(since time.Time, message string) string {
	return strings.TrimSpace(since.UTC().Format(time.RFC3339) + " " + message)
}

// Words describes a hold: who holds the node, for how long already, how to release it, and why.
func (h Hold) Words(node string) string {
	words, release := "held locally on the node", "node-agent ota release there"
	if h.By == ByAdministrator {
		words, release = "held by "+cmp.Or(h.User, "an administrator"), "kubectl gcu release "+node
	}
	if !h.Since.IsZero() {
		words += fmt.Sprintf(" since %s", h.Since.UTC().Format(time.RFC3339))
	}
	words += ", release it with " + release
	if h.Message != "" {
		words += ": " + h.Message
	}
	return words
}

// HoldWords describes all holds of a node.
func HoldWords(holds []Hold, node string) string {
	words := make([]string, 0, len(holds))
	for _, h := range holds {
		words = append(words, h.Words(node))
	}
	return strings.Join(words, "; ")
}
