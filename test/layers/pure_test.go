package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// impure are packages, with those below them, with which something could be read or written.
var impure = regexp.MustCompile(`^(context|net|os|math/rand|log|log/slog|syscall|(go\.uber\.org/zap|k8s\.io/(client-go|klog|utils/clock)|sigs\.k8s\.io/controller-runtime)(/.*)?)$`)

// treeOf returns the packages that the tree in docs/architecture.md names, and whether it calls them pure.
func treeOf(t *testing.T) map[string]bool {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(page), "\n## The tree\n")
	tree, _, _ = strings.Cut(tree, "\n## ")
	pure := map[string]bool{}
	for line := range strings.Lines(tree) {
		names, about, _ := strings.Cut(line, "/ ")
		for name := range strings.SplitSeq(names, "/, ") {
			pure[name] = regexp.MustCompile(`, pure\b`).MatchString(about)
		}
	}
	return pure
}

// importsOf returns what each package below pkg imports.
func importsOf(t *testing.T) map[string][]string {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-C", "../..", "-json=ImportPath,Imports", "./pkg/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&p); err == io.EOF {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		imports[p.ImportPath] = p.Imports
	}
}

// TestPurePackagesImportNoOther: the linter sees only what a package imports itself.
func TestPurePackagesImportNoOther(t *testing.T) {
	tree, imports := treeOf(t), importsOf(t)
	linted, err := os.ReadFile("../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var leak func(path string) string
	leak = func(path string) string {
		for _, used := range imports[path] {
			if impure.MatchString(used) {
				return used
			}
			if through := leak(used); through != "" {
				return strings.TrimPrefix(used, module) + " > " + through
			}
		}
		return ""
	}
	pure := 0
	for path := range imports {
		name := strings.TrimPrefix(path, module)
		is, known := tree[name]
		if !known {
			t.Errorf("%s is not in the tree of docs/architecture.md", name)
		}
		if !is {
			continue
		}
		pure++
		if !strings.Contains(string(linted), `"**/`+name+`/*.go"`) {
			t.Errorf("%s is said to be pure, and not held to it in .golangci.yml", name)
		}
		if through := leak(path); through != "" {
			t.Errorf("%s is said to be pure, and imports %s", name, through)
		}
	}
	if pure < 20 {
		t.Errorf("only %d packages are pure: is the tree read?", pure)
	}
}
