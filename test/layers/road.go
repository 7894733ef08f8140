package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/packages"
)

// maxShapes is how many struct types something passes through on its way, at most:
// each is a translation that a reader has to follow.
const maxShapes = 8

// road is what something is turned into on its way, as folder.Type, in order. That each
// one is made from the one before is measured.
type road struct {
	name   string
	shapes []string
}

// way is a function that takes one shape and makes the next.
type way struct{ from, to, by string }

// measureRoad finds for each shape but the first a function that makes it from the one
// before: it uses a value of that type, and has a literal of the next. It fails when
// there is none, so that a shape in between cannot be left out.
func measureRoad(r road, loaded []*packages.Package) ([]way, error) {
	var ways []way
	for i := 1; i < len(r.shapes); i++ {
		by := makerOf(r.shapes[i-1], r.shapes[i], loaded)
		if by == "" {
			return nil, fmt.Errorf("%s: no function makes a %s of a %s", r.name, r.shapes[i], r.shapes[i-1])
		}
		ways = append(ways, way{r.shapes[i-1], r.shapes[i], by})
	}
	if len(r.shapes) > maxShapes {
		return ways, fmt.Errorf("%s: %d struct types, more than %d: merge some", r.name, len(r.shapes), maxShapes)
	}
	return ways, nil
}

// makerOf returns the first function that makes one shape from another, as
// folder/file: name; "" when there is none.
func makerOf(from, to string, loaded []*packages.Package) string {
	for _, p := range loaded {
		for _, file := range p.Syntax {
			for _, declaration := range file.Decls {
				f, is := declaration.(*ast.FuncDecl)
				if is && f.Body != nil && uses(p, f, from) && makes(p, f.Body, to) {
					name := f.Name.Name
					if f.Recv != nil {
						name = receiver(f) + "." + name
					}
					return strings.TrimPrefix(p.PkgPath, module) + ": " + name
				}
			}
		}
	}
	return ""
}

// uses reports whether a function has a value of a type.
func uses(p *packages.Package, f *ast.FuncDecl, shape string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if e, is := n.(ast.Expr); is && shapeOf(p.TypesInfo.TypeOf(e)) == shape {
			found = true
		}
		return !found
	})
	return found
}

// makes reports whether a function has a literal of a type.
func makes(p *packages.Package, body *ast.BlockStmt, shape string) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if l, is := n.(*ast.CompositeLit); is && shapeOf(p.TypesInfo.TypeOf(l)) == shape {
			found = true
		}
		return !found
	})
	return found
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
