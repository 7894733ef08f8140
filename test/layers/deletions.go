package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// deleters are the packages that may delete a pod: the one way, and the client below it. Pods of
// users are evicted, by k8s.io/kubectl.
var deleters = []string{"pkg/podreplace", "cmd/manager"}

// checkDeletions returns an error that lists each call in another package that deletes pods: it
// would have rules, preconditions and a memory of its own.
func checkDeletions(loaded []*packages.Package) error {
	var wrong []string
	for _, p := range loaded {
		folder := strings.TrimPrefix(p.PkgPath, module)
		if slices.Contains(deleters, folder) {
			continue
		}
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				if call, is := n.(*ast.CallExpr); is && deletesPods(p.TypesInfo, call) {
					wrong = append(wrong, fmt.Sprintf("%s: a pod is deleted: use pkg/podreplace", p.Fset.Position(call.Pos())))
				}
				return true
			})
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("deletions of pods: %d\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

// deletesPods reports whether a call is a method of a client that deletes pods: Delete, DeleteAllOf or
// DeleteCollection, of a client for pods or with a pod as an argument. That of a Replacer is the one way.
func deletesPods(info *types.Info, call *ast.CallExpr) bool {
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || !slices.Contains([]string{"Delete", "DeleteAllOf", "DeleteCollection"}, method.Sel.Name) {
		return false
	}
	of := typeName(info.TypeOf(method.X))
	if strings.HasSuffix(of, "podreplace.Replacer") {
		return false
	}
	return strings.HasSuffix(of, ".PodInterface") || slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
		return typeName(info.TypeOf(e)) == "k8s.io/api/core/v1.Pod"
	})
}

// typeName is the name of a type with the path of its package, also behind a pointer.
func typeName(t types.Type) string {
	if t == nil {
		return ""
	}
	return strings.TrimPrefix(t.String(), "*")
}
