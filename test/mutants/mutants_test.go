package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryDefectApplies: every function exists, and its pattern matches exactly once.
func TestEveryDefectApplies(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("%s: duplicate name", m.name)
		}
		names[m.name] = true
	}
	if _, err := changesOf("../..", mutants); err != nil {
		t.Error(err)
	}
}

// TestEveryDefectCompiles: the names in replacements still exist.
func TestEveryDefectCompiles(t *testing.T) {
	changes, err := changesOf("../..", mutants)
	if err != nil {
		t.Fatal(err)
	}
	packages := compiled(t)
	files := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(packages[path].Export)
	})}
	of := map[string]listed{}
	for _, p := range packages {
		of[p.Dir] = p
	}
	changed, checked := map[string]string{}, map[string]bool{}
	for file, source := range variants(changes) {
		path, err := filepath.Abs(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		changed[path] = source
	}
	for path := range changed {
		p := of[filepath.Dir(path)]
		if checked[p.Dir] {
			continue
		}
		checked[p.Dir] = true
		var parsed []*ast.File
		for _, name := range append(p.GoFiles, "zz_mutants.go") {
			var source any
			if text, ok := changed[filepath.Join(p.Dir, name)]; ok {
				source = text
			}
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		config.Error = func(err error) { t.Errorf("%s does not compile: %v", defectAt(parsed, err, changes), err) }
		_, _ = config.Check(p.ImportPath, files, parsed, nil)
	}
}

// defectAt returns the name of the defect whose variant an error is in; "" for other code.
func defectAt(files []*ast.File, err error, changes []change) string {
	var typed types.Error
	if !errors.As(err, &typed) {
		return ""
	}
	for _, file := range files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || typed.Pos < f.Pos() || typed.Pos > f.End() {
				continue
			}
			if _, number, ok := strings.Cut(f.Name.Name, "__"); ok {
				if n, err := strconv.Atoi(number); err == nil && n > 0 {
					return changes[n-1].name
				}
			}
		}
	}
	return ""
}

// listed is a package in the output of go list; Export is the file with its export data.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// compiled compiles the packages with defects, and returns them and their imports.
func compiled(t *testing.T) map[string]listed {
	t.Helper()
	arguments := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, m := range mutants {
		if pattern := "./" + m.folder + "/..."; !slices.Contains(arguments, pattern) {
			arguments = append(arguments, pattern)
		}
	}
	command := exec.Command("go", arguments...)
	command.Dir = "../.."
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]listed{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// TestErrorsOfDefects: the error for a defect that does not apply names it and the
// functions in which it would match.
func TestErrorsOfDefects(t *testing.T) {
	module := t.TempDir()
	for path, source := range map[string]string{
		"a/limits.go":   "package a\n\ntype budget[T any] struct{ limit T }\n\nfunc (b *budget[T]) full(n int) bool { return n >= 5 || n >= 6 }\n\nfunc over(n int) bool { return n >= 4 }\n",
		"a/b/limits.go": "package b\n\nfunc over(n int) bool { return n >= 4 }\n",
		"c/limits.go":   "package c\n\nfunc open(n int) bool { return n > 4 }\n",
		"c/x_test.go":   "package c\n\nfunc open(n int) bool { return n > 4 }\n",
	} {
		path = filepath.Join(module, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		mutant
		want string // part of the error or, after the file name, of the changed source
	}{
		{mutant{"open", "", "c", "open", "$n > $limit", "$n >= $limit"}, "c/limits.go: package c\n\nfunc open(n int) bool { return n >= 4 }\n"},
		{mutant{"full", "", "a", "budget.full", "$n >= 6", "true"}, "return n >= 5 || true"},
		{mutant{"ambiguous", "", "a", "budget.full", "$n >= $limit", "false"}, "ambiguous: budget.full in a: the pattern is ambiguous: it matches in lines [5"},
		{mutant{"none", "", "a", "budget.full", "$n < $limit", "false"}, "none: budget.full in a: the pattern matches nothing"},
		{mutant{"twice", "", "a", "over", "$n >= $limit", "false"}, "twice: a has several functions over: in a/b/limits.go and a/limits.go"},
		{mutant{"narrower", "", "a/b", "over", "$n >= $limit", "false"}, "a/b/limits.go: "},
		{mutant{"renamed", "", "c", "isOpen", "$n > $limit", "false"}, `renamed: isOpen in c: no such function; functions in which "$n > $limit" matches once: [open]`},
	} {
		changes, err := changesOf(module, []mutant{c.mutant})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = changes[0].in.path + ": " + changes[0].source
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}
