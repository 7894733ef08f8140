package view

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheRunbooksNameWhatThePluginAdvises: the table of docs/operate.md and the plugin
// know the same reasons. One that asks for nothing need not be in the table.
func TestTheRunbooksNameWhatThePluginAdvises(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Runbooks\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(section) {
		column, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, reason := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(column, -1) {
			if strings.HasPrefix(line, "| ") {
				named[reason[1]] = true
			}
		}
	}
	if len(named) == 0 {
		t.Fatal("docs/operate.md has no table of reasons below Runbooks")
	}
	for _, reason := range slices.Sorted(maps.Keys(named)) {
		if advice[reason] == "" {
			t.Errorf("docs/operate.md has a runbook for %s, about which the plugin says nothing", reason)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(advice)) {
		if !strings.HasPrefix(advice[reason], "nothing") && !named[reason] {
			t.Errorf("docs/operate.md has no runbook for %s; the plugin says: %s", reason, advice[reason])
		}
	}
}
