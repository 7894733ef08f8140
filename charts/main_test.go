package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheChartIsUpToDate(t *testing.T) {
	files, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: run make generate: %v\n%s", name, err, diff)
		}
	}
	old, err := generated("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range old {
		if _, found := files[name]; !found {
			t.Errorf("%s is made from nothing any more: run make generate", name)
		}
	}
}

// TestEveryManifestIsInTheChart: a folder of config/default that no part of the chart is made from would be missed.
func TestEveryManifestIsInTheChart(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", config, "default", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "- ../")
		if found && !slices.ContainsFunc(folders, func(f folder) bool { return f.name == name }) {
			t.Errorf("config/%s is not in the chart", name)
		}
	}
}

func TestAnEditThatDoesNotFitIsAnError(t *testing.T) {
	for _, c := range []struct {
		name, text string
		edit       edit
		want       string
	}{
		{"it is replaced", "a: 1\n", edit{old: "1", new: "2"}, "a: 2\n"},
		{"it is gone", "a: 3\n", edit{old: "1", new: "2"}, ""},
		{"it is there more often", "a: 11\n", edit{old: "1", new: "2"}, ""},
		{"it may be there more often", "a: 11\n", edit{old: "1", new: "2", times: -1}, "a: 22\n"},
		{"it has to be there at least once", "a: 3\n", edit{old: "1", new: "2", times: -1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := folder{edits: map[string][]edit{"f.yaml": {c.edit}}}
			got, err := f.template("f.yaml", c.text, "")
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestThePageShowsADefaultAsInValues(t *testing.T) {
	got, err := page([]byte("# a\na: [443, 6443]\n# b\nb:\n  - 443\n  - 6443\n# c\nc: []\n# d\nd: {}\n# e\ne: \"\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ = strings.Cut(got, "|---|---|---|\n")
	want := "| `a` | `[443, 6443]` | a |\n| `b` | `[443, 6443]` | b |\n| `c` | `[]` | c |\n| `d` | `{}` | d |\n| `e` | `\"\"` | e |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
