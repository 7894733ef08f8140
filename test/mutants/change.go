package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/topsops/gcu-operator/test/mutants/pattern"
)

// change is a defect, the function that it is in, and the source of the file with it.
type change struct {
	mutant
	in     function
	source string
}

// changesOf applies each defect separately to the module in a folder. The error lists
// every defect that does not apply.
func changesOf(module string, mutants []mutant) ([]change, error) {
	below := map[string][]function{}
	var changes []change
	var failed []error
	for _, m := range mutants {
		if below[m.folder] == nil {
			functions, err := functionsBelow(module, m.folder)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", m.folder, err)
			}
			below[m.folder] = functions
		}
		c, err := m.apply(below[m.folder])
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
		}
		changes = append(changes, c)
	}
	return changes, errors.Join(failed...)
}

// apply applies the defect. It fails unless exactly one function has its name and the
// pattern matches there exactly once; the error lists other functions in which it would
// match.
func (m mutant) apply(functions []function) (change, error) {
	var named []function
	for _, f := range functions {
		if f.name == m.function {
			named = append(named, f)
		}
	}
	if len(named) > 1 {
		return change{}, fmt.Errorf("%s has several functions %s: in %s and %s", m.folder, m.function, named[0].path, named[1].path)
	}
	err := errors.New("no such function")
	if len(named) == 1 {
		var source string
		if source, err = named[0].rewrite(m); err == nil {
			return change{m, named[0], source}, nil
		}
	}
	var elsewhere []string
	for _, f := range functions {
		if _, err := f.rewrite(m); err == nil && len(elsewhere) < 5 {
			elsewhere = append(elsewhere, f.name)
		}
	}
	return change{}, fmt.Errorf("%s in %s: %w; functions in which %q matches once: %v", m.function, m.folder, err, m.from, elsewhere)
}

// function is a function and its file; path is relative to the module, pkg the name of its package.
type function struct {
	name, path, pkg, source string
	file                    *token.File
	declaration             *ast.FuncDecl
}

func (f function) rewrite(m mutant) (string, error) {
	return pattern.Rewrite(f.file, f.source, f.declaration, m.from, m.to)
}

// functionsBelow returns the functions in a folder of a module and its subfolders,
// without tests.
func functionsBelow(module, folder string) ([]function, error) {
	var all []function
	err := filepath.WalkDir(filepath.Join(module, folder), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(module, path)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				all = append(all, function{nameOf(d), relative, file.Name.Name, string(source), files.File(file.Pos()), d})
			}
		}
		return nil
	})
	return all, err
}

// nameOf returns the name of a function, or Type.method.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && name == "" { // type parameters follow the type's own name
			name = ident.Name + "." + d.Name.Name
		}
		return name == ""
	})
	return name
}
