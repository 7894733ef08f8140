package main

import (
	"go/ast"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The names of types that say how far something is, and how it ended or what was decided.
var (
	stateName  = regexp.MustCompile(`(?i)(state|phase|outcome)$`)
	resultName = regexp.MustCompile(`(?i)(outcome|result|decision|verdict)$`)
)

// Each type of a state or a result answers a question that no other one answers: the table in
// docs/architecture.md has them all, and no more.
func TestTheTableOfStatesIsComplete(t *testing.T) {
	found, listed := map[string]bool{}, map[string]bool{}
	eachFile(t, func(file string, syntax *ast.File) {
		ast.Inspect(syntax, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			_, word := spec.Type.(*ast.Ident)
			_, structure := spec.Type.(*ast.StructType)
			if word && stateName.MatchString(spec.Name.Name) || structure && resultName.MatchString(spec.Name.Name) {
				found[strings.TrimPrefix(path.Dir(file), "pkg/")+"."+spec.Name.Name] = true
			}
			return true
		})
	})
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## States and results\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed[row[1]] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(listed))); diff != "" {
		t.Errorf("types of states and results (-in the code +in the table):\n%s", diff)
	}
}
