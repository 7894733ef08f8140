package ota

import (
	"testing"

	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// TestVersionsOfComparesTargetsByContent: a node read again without a change is not written
// again, although its targets have other addresses in memory.
func TestVersionsOfComparesTargetsByContent(t *testing.T) {
	node := func(revision string) *request.Node {
		return &request.Node{DaemonSets: []request.DaemonSet{{Component: "driver", Target: &request.Template{Revision: revision}}}}
	}
	if first, again := versionsOf(node("a")), versionsOf(node("a")); first != again {
		t.Error("two readings of the same node differ")
	}
	if versionsOf(node("a")) == versionsOf(node("b")) {
		t.Error("another target is not noticed")
	}
	if unknown := (&request.Node{DaemonSets: []request.DaemonSet{{Component: "driver"}}}); versionsOf(unknown) == versionsOf(node("a")) {
		t.Error("a target that becomes known is not noticed")
	}
}
