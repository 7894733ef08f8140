package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/test/handbook"
)

// story matches where a story of test/e2e takes the commands of a section, all of which it must run.
var story = regexp.MustCompile(`\bpageOf\([\w.]+, "([^"]+)", "([^"]+)"`)

// TestEveryCommandOfThePagesIsRun: by a story of test/e2e, or test/handbook says why not.
func TestEveryCommandOfThePagesIsRun(t *testing.T) {
	told := map[[2]string]bool{}
	sources, err := filepath.Glob(filepath.Join(root, "test", "e2e", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		for _, m := range story.FindAllStringSubmatch(read(t, filepath.Join("test", "e2e", filepath.Base(source))), -1) {
			if !slices.Contains(handbook.All, m[1]) {
				t.Errorf("%s has a story, and is not in handbook.All", m[1])
			}
			told[[2]string{m[1], m[2]}] = true
		}
	}
	for _, page := range handbook.All {
		sections, err := handbook.Read(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sections {
			if toRun := s.ToRun(); len(toRun) > 0 && !told[[2]string{page, s.Title}] {
				t.Errorf("%s, %q: no story runs %q, and test/handbook/notrun.go has no reason", page, s.Title, toRun)
			}
		}
	}
}

// TestWhatIsNotRunIsOnThePages: an exception that matches no command is left over.
func TestWhatIsNotRunIsOnThePages(t *testing.T) {
	unused, err := handbook.Unused(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range unused {
		t.Errorf("test/handbook/notrun.go has an exception for %s, which is on no page", e)
	}
}

// TestTheSoftwareIsDeployedByTheSameCommands: those of docs/install.md are not run because those of the README are.
func TestTheSoftwareIsDeployedByTheSameCommands(t *testing.T) {
	of := func(page, title string) (commands []string) {
		sections, err := handbook.Read(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sections {
			for _, c := range slices.Concat(s.Blocks...) {
				if s.Title == title && strings.HasPrefix(c.Text, "kubectl") {
					commands = append(commands, comment.ReplaceAllString(c.Text, ""))
				}
			}
		}
		return commands
	}
	if diff := cmp.Diff(of("README.md", "Install"), of("docs/install.md", "Deploy the GCU software")); diff != "" {
		t.Errorf("commands (-README +docs/install.md):\n%s", diff)
	}
}
