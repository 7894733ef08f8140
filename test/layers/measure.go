package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/topsops/gcu-operator/"

// measured is the measurements of one package, without generated files.
type measured struct {
	folder          string
	files, lines    int
	uses            graph
	longestFile     sized
	longestFunction sized
	largestType     sized
	// mostTaken is the type with the most methods and functions that take it first.
	mostTaken sized
}

// sized is a name with a size in any unit.
type sized struct {
	name string
	size int
}

func (s sized) String() string {
	if s.name == "" {
		return "-"
	}
	return fmt.Sprintf("%s %d", s.name, s.size)
}

// larger keeps the larger one, or the first of equals.
func (s *sized) larger(name string, size int) {
	if size > s.size {
		*s = sized{name, size}
	}
}

// load loads the packages that match patterns, sorted by path. It fails if one does not
// compile.
func load(patterns ...string) ([]*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("loading packages: %w", err)
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return cmp.Compare(a.PkgPath, b.PkgPath) })
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("loading %s: %w", p.PkgPath, p.Errors[0])
		}
	}
	return loaded, nil
}

// measure measures packages.
func measure(loaded []*packages.Package) []measured {
	var all []measured
	for _, p := range loaded {
		all = append(all, measureOne(p))
	}
	return all
}

func measureOne(p *packages.Package) measured {
	m := measured{folder: strings.TrimPrefix(p.PkgPath, module), uses: graph{}}
	methods, taking := map[string]int{}, map[string]int{}
	for _, file := range p.Syntax {
		if ast.IsGenerated(file) {
			continue
		}
		at := p.Fset.Position(file.Pos())
		name, lines := filepath.Base(at.Filename), p.Fset.File(file.Pos()).LineCount()-1
		m.files++
		m.lines += lines
		m.longestFile.larger(name, lines)
		for _, declaration := range file.Decls {
			f, is := declaration.(*ast.FuncDecl)
			if !is {
				continue
			}
			m.longestFunction.larger(f.Name.Name, length(p.Fset, f))
			if f.Recv != nil {
				methods[typeOf(f.Recv)]++
			}
			if f.Recv == nil && len(f.Type.Params.List) > 0 {
				taking[typeOf(f.Type.Params)]++
			}
		}
		m.uses.take(p, file, name)
	}
	for name, n := range methods {
		if n == m.largestType.size && name < m.largestType.name {
			m.largestType.name = name
		}
		m.largestType.larger(name, n)
		if all := n + taking[name]; all == m.mostTaken.size && name < m.mostTaken.name {
			m.mostTaken.name = name
		}
		m.mostTaken.larger(name, n+taking[name])
	}
	return m
}

// take adds the uses of other files of the package by a file.
func (g graph) take(p *packages.Package, file *ast.File, name string) {
	ast.Inspect(file, func(n ast.Node) bool {
		identifier, is := n.(*ast.Ident)
		if !is {
			return true
		}
		used := p.TypesInfo.Uses[identifier]
		if used == nil || used.Pkg() != p.Types || !lasting(used) {
			return true
		}
		of := filepath.Base(p.Fset.Position(used.Pos()).Filename)
		if of == name || of == "." || strings.HasPrefix(of, "zz_generated") {
			return true
		}
		if g[name] == nil {
			g[name] = map[string]string{}
		}
		if _, known := g[name][of]; !known {
			g[name][of] = used.Name()
		}
		return true
	})
}

// lasting reports whether an object is declared at package level, including methods and
// fields.
func lasting(o types.Object) bool {
	switch o := o.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return o.IsField() || o.Parent() == o.Pkg().Scope()
	default:
		return o.Parent() == o.Pkg().Scope()
	}
}

func length(files *token.FileSet, n ast.Node) int {
	return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1
}

// typeOf returns the name of the type of a receiver, or of a first parameter; "" for one of another package, or none that has a name.
func typeOf(list *ast.FieldList) string {
	t := list.List[0].Type
	if star, is := t.(*ast.StarExpr); is {
		t = star.X
	}
	switch t := t.(type) {
	case *ast.IndexExpr:
		if name, is := t.X.(*ast.Ident); is {
			return name.Name
		}
	case *ast.IndexListExpr:
		if name, is := t.X.(*ast.Ident); is {
			return name.Name
		}
	case *ast.Ident:
		return t.Name
	}
	return ""
}
