package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// TestEveryReasonIsInTheTroubleshooting: each once, with the same commands in both languages.
func TestEveryReasonIsInTheTroubleshooting(t *testing.T) {
	var listed []string
	for _, group := range symptoms {
		for _, s := range group.list {
			listed = append(listed, s.reason)
			advice := display.Advice(s.reason, "")
			for _, m := range quoted.FindAllStringSubmatch(s.adviceZH, -1) {
				if !strings.Contains(advice, m[1]) {
					t.Errorf("%s: %q is not in %q", s.reason, m[1], advice)
				}
			}
			for _, program := range []string{"kubectl ", "node-agent ota"} {
				if en, zh := strings.Count(advice, program), strings.Count(s.adviceZH, program); en != zh {
					t.Errorf("%s: %d commands of %s in English, %d in Chinese", s.reason, en, program, zh)
				}
			}
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(display.AdvisedReasons(), listed); diff != "" {
		t.Errorf("reasons (-with advice +listed):\n%s", diff)
	}
}

// translated returns the pages in Chinese with those in English.
func translated(t *testing.T) map[string]string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "zh", "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no pages in Chinese: %v", err)
	}
	both := map[string]string{"README.zh.md": "README.md"}
	for _, path := range found {
		both["docs/zh/"+filepath.Base(path)] = "docs/" + filepath.Base(path)
	}
	return both
}

var (
	level   = regexp.MustCompile(`(?m)^#{1,6} `)
	row     = regexp.MustCompile(`(?m)^\|.*\|$`)
	comment = regexp.MustCompile(`(?m)[ \t]*(?:^|[ \t])#.*$`)
)

// structure is what two languages of a page have in common: levels of headings, commands, and tables with
// the code of each row.
type structure struct {
	Levels, Commands []string
	Rows             [][]string
}

func structureOf(text string) structure {
	var s structure
	for _, block := range fenced.FindAllStringSubmatch(text, -1) {
		s.Commands = append(s.Commands, comment.ReplaceAllString(block[2], ""))
	}
	prose := fenced.ReplaceAllString(text, "")
	s.Levels = level.FindAllString(prose, -1)
	for _, line := range row.FindAllString(prose, -1) {
		code := span.FindAllString(line, -1)
		slices.Sort(code) // languages differ in the order of words
		s.Rows = append(s.Rows, code)
	}
	return s
}

// TestPagesInChineseAreThoseInEnglish compares what does not depend on the language.
func TestPagesInChineseAreThoseInEnglish(t *testing.T) {
	for zh, en := range translated(t) {
		if _, err := os.Stat(filepath.Join(root, en)); err != nil {
			t.Errorf("%s is no translation of %s: %v", zh, en, err)
			continue
		}
		if diff := cmp.Diff(structureOf(read(t, en)), structureOf(read(t, zh))); diff != "" {
			t.Errorf("%s is unlike %s (-English +Chinese):\n%s", zh, en, diff)
		}
		if en != "README.md" && !strings.Contains(read(t, "README.zh.md"), "("+zh+")") {
			t.Errorf("README.zh.md has no link to %s", zh)
		}
	}
}
