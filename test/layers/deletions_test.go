package main

import (
	"strings"
	"testing"
)

func TestEachCallThatDeletesPodsIsFound(t *testing.T) {
	loaded, err := load("./testdata/deletions")
	if err != nil {
		t.Fatal(err)
	}
	err = checkDeletions(loaded)
	if err == nil {
		t.Fatal("no call is found, want three")
	}
	for _, line := range []string{"deletions.go:17:", "deletions.go:18:", "deletions.go:19:", "deletions of pods: 3\n"} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("%q is not in:\n%v", line, err)
		}
	}
}
