package pattern

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// ErrNoMatch means that the pattern does not match.
var ErrNoMatch = errors.New("the pattern matches nothing")

// Rewrite returns the source of a file in which the match of from in root is replaced by
// to, with the metavariables filled in. root is a part of the file's syntax tree, parsed
// without comments and objects. It is an error if from does not match (ErrNoMatch) or
// matches several places, or if the result is unchanged.
func Rewrite(file *token.File, source string, root ast.Node, from, to string) (string, error) {
	p, err := parse(from)
	if err != nil {
		return "", err
	}
	results := map[string]int{} // the line of the change
	p.find(root, func(m match) {
		var text string
		if text, err = expand(to, m.bound, func(nodes []ast.Node) string { return code(file, source, nodes) }); err != nil {
			return
		}
		results[source[:file.Offset(m.from)]+text+source[file.Offset(m.to):]] = file.Line(m.from)
	})
	switch {
	case err != nil:
		return "", err
	case len(results) == 0:
		return "", ErrNoMatch
	case len(results) > 1:
		return "", fmt.Errorf("the pattern is ambiguous: it matches in lines %v", slices.Compact(slices.Sorted(maps.Values(results))))
	case results[source] != 0:
		return "", errors.New("the pattern changes nothing")
	}
	for changed := range results {
		source = changed
	}
	return source, nil
}

// code returns the source of consecutive nodes, in parentheses if operator precedence
// could change its meaning.
func code(file *token.File, source string, nodes []ast.Node) string {
	if len(nodes) == 0 {
		return ""
	}
	text := source[file.Offset(nodes[0].Pos()):file.Offset(nodes[len(nodes)-1].End())]
	if len(nodes) == 1 {
		switch nodes[0].(type) {
		case *ast.BinaryExpr, *ast.UnaryExpr, *ast.StarExpr:
			return "(" + text + ")"
		}
	}
	return text
}

// expand fills in the metavariables of a replacement.
func expand(to string, bound map[string][]ast.Node, code func([]ast.Node) string) (string, error) {
	var b strings.Builder
	end := 0
	for _, h := range holes(to) {
		nodes, ok := bound[h.name]
		if !ok {
			return "", fmt.Errorf("the replacement has $%s, which the pattern has not", h.name)
		}
		b.WriteString(to[end:h.from])
		b.WriteString(code(nodes))
		end = h.to
	}
	b.WriteString(to[end:])
	return b.String(), nil
}
