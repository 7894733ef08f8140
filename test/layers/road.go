package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// maxTypes is how many struct types something passes through on its way to a deletion, at most: each is one that a reader has to
// know.
const maxTypes = 8

// road is what something is turned into on its way, as folder.Type, in order; a struct
// and those that exist only in it are one shape, A|B. That each one is made from the one
// before is measured.
type road struct {
	name   string
	shapes []string
}

// way is a function that takes one shape and makes the next.
type way struct{ from, to, by string }

// roads are the ways to a deletion: from a POST on a node, from the event of a pod, a node
// or a DaemonSet, and from a slot to what an operation does on its node.
var roads = []road{
	{"POST /v1/operations to DELETE", []string{
		"pkg/ota/request.Operation|pkg/ota/request.Wanted|pkg/ota/request.Part", "api/v1.UpgradeRequest", "pkg/ota/request.Request",
		"api/v1.UpgradeRequest", "pkg/daemonupdater/rollout.Node|pkg/daemonupdater/rollout.Pod",
		"pkg/daemonupdater/rollout.Slot", "pkg/daemonupdater/rollout.Pod",
	}},
	{"watch event to DELETE", []string{
		"pkg/daemonupdater/rollout.Node|pkg/daemonupdater/rollout.Pod", "pkg/daemonupdater/rollout.Slot",
		"pkg/daemonupdater/rollout.Pod",
	}},
	{"slot of an operation to DELETE", []string{
		"pkg/daemonupdater/rollout.Slot", "pkg/daemonupdater/rollout.OperationChange", "api/v1.NodeOperation",
		"pkg/nodeupgrade/operation.Facts|pkg/nodeupgrade/operation.Member|pkg/nodeupgrade/operation.Pod",
		"pkg/nodeupgrade/operation.changes", "pkg/nodeupgrade/operation.Effect",
	}},
}

// measureRoad finds for each shape but the first a function that makes it from the one
// before: it uses a value of that type, or of one that holds it, and has a literal or a
// field of the next (makerOf). It fails when there is none.
func measureRoad(r road, loaded []*packages.Package) ([]way, error) {
	var ways []way
	for i := 1; i < len(r.shapes); i++ {
		by := makerOf(r.shapes[i-1], r.shapes[i], loaded)
		if by == "" {
			return nil, fmt.Errorf("%s: no function makes a %s of a %s", r.name, r.shapes[i], r.shapes[i-1])
		}
		ways = append(ways, way{r.shapes[i-1], r.shapes[i], by})
	}
	if _, n := r.distinct(); n > maxTypes {
		return ways, fmt.Errorf("%s: %d struct types, more than %d: merge some", r.name, n, maxTypes)
	}
	return ways, nil
}

// distinct counts the shapes of a road, and their struct types; one that it comes back to
// counts once.
func (r road) distinct() (shapes, structs int) {
	all := slices.Compact(slices.Sorted(slices.Values(r.shapes)))
	types := strings.Split(strings.Join(all, "|"), "|")
	return len(all), len(slices.Compact(slices.Sorted(slices.Values(types))))
}

// isOneOf reports whether a type is of a shape.
func isOneOf(t types.Type, shape string) bool {
	name := shapeOf(t)
	return name != "" && slices.Contains(strings.Split(shape, "|"), name)
}

// makerOf returns a function that makes one shape from another, as folder: name; "" when
// there is none. One that has a literal of the second or returns it comes before one that only uses it; of those, one that reads the
// first, and not only has a value in which it lies.
func makerOf(from, to string, loaded []*packages.Package) string {
	best, found := "", 0
	for _, p := range loaded {
		for _, file := range p.Syntax {
			for _, declaration := range file.Decls {
				f, is := declaration.(*ast.FuncDecl)
				if !is || f.Body == nil || !uses(p, f, from) {
					continue
				}
				literal, made := makes(p, f.Body, to)
				if !made {
					continue
				}
				returned := returns(p, f, to)
				if n := 1 + 8*one(literal || returned) + 4*one(reads(p, f.Body, from)) + 2*one(literal) + one(returned); n > found {
					best, found = nameOf(p, f), n
				}
			}
		}
	}
	return best
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reads reports whether a function selects a field or method of a value of a shape.
func reads(p *packages.Package, body *ast.BlockStmt, shape string) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		e, is := n.(*ast.SelectorExpr)
		found = found || is && isOneOf(p.TypesInfo.TypeOf(e.X), shape)
		return !found
	})
	return found
}

// returns reports whether a result of a function is of a shape, or a slice of it.
func returns(p *packages.Package, f *ast.FuncDecl, shape string) bool {
	if f.Type.Results == nil {
		return false
	}
	return slices.ContainsFunc(f.Type.Results.List, func(field *ast.Field) bool {
		t := p.TypesInfo.TypeOf(field.Type)
		if s, is := t.Underlying().(*types.Slice); is {
			t = s.Elem()
		}
		return isOneOf(t, shape)
	})
}

func nameOf(p *packages.Package, f *ast.FuncDecl) string {
	name := f.Name.Name
	if f.Recv != nil {
		name = typeOf(f.Recv) + "." + name
	}
	return strings.TrimPrefix(p.PkgPath, module) + ": " + name
}

// uses reports whether a function has a value of a type.
func uses(p *packages.Package, f *ast.FuncDecl, shape string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if e, is := n.(ast.Expr); is && holds(p.TypesInfo.TypeOf(e), shape, maxDepth) {
			found = true
		}
		return !found
	})
	return found
}

// maxDepth is how many structs deep a shape may lie in another.
const maxDepth = 4

// holds reports whether a type is a shape, or has it in its fields, behind pointers and
// in slices.
func holds(t types.Type, shape string, depth int) bool {
	if t == nil || depth == 0 {
		return false
	}
	if isOneOf(t, shape) {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return holds(u.Elem(), shape, depth)
	case *types.Slice:
		return holds(u.Elem(), shape, depth)
	case *types.Struct:
		for field := range u.Fields() {
			if holds(field.Type(), shape, depth-1) {
				return true
			}
		}
	}
	return false
}

// makes reports whether a function has a literal of a type, and whether it has one,
// calls what returns one, or takes one out of a field.
func makes(p *packages.Package, body *ast.BlockStmt, shape string) (literal, made bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.CompositeLit:
			literal = literal || isOneOf(p.TypesInfo.TypeOf(e), shape)
		case *ast.CallExpr:
			made = made || isOneOf(p.TypesInfo.TypeOf(e), shape)
		case *ast.SelectorExpr:
			field := p.TypesInfo.Selections[e]
			made = made || field != nil && field.Kind() == types.FieldVal && isOneOf(field.Type(), shape)
		}
		return true
	})
	return literal, made || literal
}

// shapeOf names a struct type of the module as folder.Type, also behind a pointer; "" for
// any other type.
func shapeOf(t types.Type) string {
	if t == nil {
		return ""
	}
	if pointer, is := t.Underlying().(*types.Pointer); is {
		t = pointer.Elem()
	}
	named, is := types.Unalias(t).(*types.Named)
	if !is || named.Obj().Pkg() == nil {
		return ""
	}
	if _, is := named.Underlying().(*types.Struct); !is {
		return ""
	}
	return strings.TrimPrefix(named.Obj().Pkg().Path(), module) + "." + named.Obj().Name()
}
