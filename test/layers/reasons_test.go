package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var reasonName = regexp.MustCompile(`^([rR]eason|event)[A-Z]`)

// A reason is one string with one home: other packages refer to it (api/v1/reasons.go).
func TestNoReasonIsDeclaredTwice(t *testing.T) {
	places := map[string][]string{}
	eachFile(t, func(path string, file *ast.File) {
		for _, reason := range reasonsIn(file) {
			places[reason] = append(places[reason], path)
		}
	})
	if len(places) < 100 {
		t.Fatalf("%d reasons found, want those of all packages", len(places))
	}
	for _, reason := range slices.Sorted(maps.Keys(places)) {
		if len(places[reason]) > 1 {
			t.Errorf("reason %s is declared more than once: %v", reason, places[reason])
		}
	}
}

// eachFile parses the production files of api, cmd and pkg, by their paths in the module.
func eachFile(t *testing.T, do func(path string, file *ast.File)) {
	t.Helper()
	for _, root := range []string{"api", "cmd", "pkg"} {
		err := filepath.WalkDir("../../"+root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				do(strings.TrimPrefix(filepath.ToSlash(path), "../../"), file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// reasonsIn returns the strings of the reason constants of a file.
func reasonsIn(file *ast.File) (reasons []string) {
	for _, declaration := range file.Decls {
		constants, is := declaration.(*ast.GenDecl)
		if !is || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if i >= len(value.Values) || !reasonName.MatchString(name.Name) {
					continue
				}
				if literal, is := value.Values[i].(*ast.BasicLit); is && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					if err == nil {
						reasons = append(reasons, text)
					}
				}
			}
		}
	}
	return reasons
}
