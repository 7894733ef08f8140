package pattern

import (
	"go/ast"
	"go/token"
	"reflect"
)

// match is a match of a pattern, with the values of its metavariables.
type match struct {
	from, to token.Pos
	bound    map[string][]ast.Node
}

// find calls found for every match in root, once for every way in which it matches.
func (p pattern) find(root ast.Node, found func(match)) {
	m := matcher{}
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		if p.list.Len() == 1 {
			m.value(p.list.Index(0), reflect.ValueOf(&n).Elem(), func() { found(match{n.Pos(), n.End(), m}) })
			return true
		}
		for _, field := range reflect.ValueOf(n).Elem().Fields() {
			if field.Type() != p.list.Type() {
				continue
			}
			for i := range field.Len() {
				m.list(p.list, field.Slice(i, field.Len()), func(length int) {
					if matched := nodes(field.Slice(i, i+length)); length > 0 {
						found(match{matched[0].Pos(), matched[length-1].End(), m})
					}
				})
			}
		}
		return true
	})
}

// matcher holds the values bound to metavariables so far. Its methods call then for every
// way in which a part p of a pattern matches a part n of a tree.
type matcher map[string][]ast.Node

var position = reflect.TypeFor[token.Pos]()

func (m matcher) value(p, n reflect.Value, then func()) {
	switch p.Kind() {
	case reflect.Interface, reflect.Pointer:
		m.node(p, n, then)
	case reflect.Struct:
		m.fields(p, n, 0, then)
	case reflect.Slice:
		m.list(p, n, func(length int) {
			if length == n.Len() {
				then()
			}
		})
	default:
		// A position matters only if its presence has a meaning, such as the dots of f(a...).
		if p.Equal(n) || p.Type() == position && p.IsZero() == n.IsZero() {
			then()
		}
	}
}

func (m matcher) node(p, n reflect.Value, then func()) {
	if p.IsNil() || n.IsNil() {
		if p.IsNil() && n.IsNil() {
			then()
		}
		return
	}
	if name, several := hole(p); name != "" && !several {
		m.bind(name, []ast.Node{n.Interface().(ast.Node)}, then)
		return
	}
	if p.Elem().Type() == n.Elem().Type() {
		m.value(p.Elem(), n.Elem(), then)
	}
}

func (m matcher) fields(p, n reflect.Value, from int, then func()) {
	if from == p.NumField() {
		then()
		return
	}
	m.value(p.Field(from), n.Field(from), func() { m.fields(p, n, from+1, then) })
}

// list matches the whole list p with a prefix of n, and calls then with its length.
func (m matcher) list(p, n reflect.Value, then func(length int)) {
	if p.Len() == 0 {
		then(0)
		return
	}
	rest := p.Slice(1, p.Len())
	name, several := hole(p.Index(0))
	for i := range n.Len() + 1 {
		next := func() { m.list(rest, n.Slice(i, n.Len()), func(length int) { then(i + length) }) }
		if several {
			m.bind(name, nodes(n.Slice(0, i)), next)
		} else if i == 1 {
			m.value(p.Index(0), n.Index(0), next)
		}
	}
}

// bind binds a metavariable to nodes. If it is already bound, the code must be the same.
func (m matcher) bind(name string, to []ast.Node, then func()) {
	before, bound := m[name]
	switch {
	case name == "_":
		then()
	case !bound:
		m[name] = to
		then()
		delete(m, name)
	default:
		same := false
		matcher{}.value(reflect.ValueOf(before), reflect.ValueOf(to), func() { same = true })
		if same {
			then()
		}
	}
}

func nodes(list reflect.Value) []ast.Node {
	var all []ast.Node
	for i := range list.Len() {
		if node, ok := list.Index(i).Interface().(ast.Node); ok {
			all = append(all, node)
		}
	}
	return all
}
