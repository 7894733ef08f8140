package pattern

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"reflect"
	"strings"
)

// pattern is a list of consecutive expressions or statements: an []ast.Expr or an
// []ast.Stmt. Its metavariables are identifiers with prefix one or many.
type pattern struct{ list reflect.Value }

// Prefixes of identifiers that represent metavariables.
const (
	one  = "metavariable_one_"
	many = "metavariable_many_"
)

// parse reads a pattern.
func parse(source string) (pattern, error) {
	var b strings.Builder
	end := 0
	for _, h := range holes(source) {
		b.WriteString(source[end:h.from] + h.prefix + h.name)
		end = h.to
	}
	text := strings.TrimSpace(b.String() + source[end:])
	expr, err := parser.ParseExpr(text)
	if name, _ := hole(reflect.ValueOf(expr)); err == nil && name != "" {
		return pattern{}, errors.New("a metavariable alone matches everything")
	}
	if err == nil {
		return pattern{reflect.ValueOf([]ast.Expr{expr})}, nil
	}
	if expr, err := parser.ParseExpr("_{" + text + "}"); err == nil {
		return pattern{reflect.ValueOf(expr.(*ast.CompositeLit).Elts)}, nil
	}
	if clauses, err := statements("switch {\n" + text + "\n}"); err == nil {
		return pattern{reflect.ValueOf(clauses[0].(*ast.SwitchStmt).Body.List)}, nil
	}
	stmts, err := statements(text)
	if err != nil {
		return pattern{}, fmt.Errorf("%q is no code: %w", source, err)
	}
	return pattern{reflect.ValueOf(stmts)}, nil
}

// statements parses the body of a function.
func statements(body string) ([]ast.Stmt, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() {\n"+body+"\n}", parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return file.Decls[0].(*ast.FuncDecl).Body.List, nil
}

// metavariable is a metavariable in the text of a pattern, from its $ to its end.
type metavariable struct {
	prefix, name string
	from, to     int
}

// holes returns the metavariables in text; a $ in a string does not count.
func holes(text string) []metavariable {
	var found []metavariable
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, []byte(text), func(token.Position, string) {}, 0)
	for {
		pos, tok, lit := s.Scan()
		switch at := file.Offset(pos); {
		case tok == token.EOF:
			return found
		case tok == token.ILLEGAL && lit == "$":
			found = append(found, metavariable{prefix: one, from: at})
		case len(found) == 0 || found[len(found)-1].name != "":
		case tok == token.MUL:
			found[len(found)-1].prefix = many
		case tok == token.IDENT || tok.IsKeyword():
			found[len(found)-1].name, found[len(found)-1].to = lit, at+len(lit)
		}
	}
}

// hole returns the name of the metavariable that a pattern node represents, and whether
// it matches any number of nodes; "" for other nodes.
func hole(node reflect.Value) (name string, several bool) {
	if !node.IsValid() {
		return "", false
	}
	if node.Kind() == reflect.Interface {
		node = node.Elem()
	}
	if stmt, ok := node.Interface().(*ast.ExprStmt); ok {
		node = reflect.ValueOf(stmt.X)
	}
	ident, ok := node.Interface().(*ast.Ident)
	if !ok || ident == nil {
		return "", false
	}
	if name, ok := strings.CutPrefix(ident.Name, many); ok {
		return name, true
	}
	name, ok = strings.CutPrefix(ident.Name, one)
	if !ok {
		return "", false
	}
	return name, false
}
