package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutItsToolsThereIsNoRelease(t *testing.T) {
	r := made(t)
	check(t, os.WriteFile(r.file("kept"), nil, 0o600))
	for _, missing := range []string{"", filepath.Join(r.work, "nfpm")} {
		r.nfpm, r.syft = missing, missing
		if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "make fetch compiles it, PACKAGES=no leaves them out") || !strings.Contains(err.Error(), "without syft: make fetch compiles it") {
			t.Errorf("nfpm and syft %q: %v", missing, err)
		}
	}
	if _, err := os.Stat(r.file("kept")); err != nil {
		t.Error("the folder was emptied")
	}
}

func TestAReleaseHasAllFilesAndNoOthers(t *testing.T) {
	r := made(t)
	for _, tt := range []struct {
		nfpm string
		want int
	}{{none, 31}, {"nfpm", 35}} { // in this order: the files are those of before and more
		r.nfpm = tt.nfpm
		names := expected(r.version, tt.nfpm != none)
		if len(names) != tt.want {
			t.Errorf("nfpm %s: %d files, want %d: %q", tt.nfpm, len(names), tt.want, names)
		}
		for _, name := range names {
			check(t, r.write(name, nil))
		}
		check(t, r.isComplete(t.Context()))
	}
	check(t, r.write("other", nil))
	if err := r.isComplete(t.Context()); err == nil {
		t.Error("another file is not noticed")
	}
	check(t, os.Remove(r.file("other")))
	check(t, os.Remove(r.file("install.yaml")))
	if err := r.isComplete(t.Context()); err == nil {
		t.Error("a missing file is not noticed")
	}
}
