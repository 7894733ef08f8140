package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryDefectApplies: the code that a defect changes is still there, once.
func TestEveryDefectApplies(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.from); n != 1 {
			t.Errorf("%s: %q stands %d times in %s, want once", m.name, m.from, n, m.file)
		}
		if names[m.name] || m.from == m.to {
			t.Errorf("%s: its name is taken, or it changes nothing", m.name)
		}
		names[m.name] = true
	}
}
