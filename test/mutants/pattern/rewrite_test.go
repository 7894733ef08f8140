package pattern

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

const source = `package p

func (p *planner) plan(nodes []node, limit int) (started []node, err error) {
	// The budget.
	all := p.moving(nodes...) // in flight
	if all >= p.in.limit || p.paused {
		return nil, errBudget
	}
	for _, n := range nodes {
		switch {
		case n.Ready && !n.held(limit):
			started = append(started, node{Name: n.Name, slot: slot{Since: p.now}})
		case n.lost:
			p.lost++
			p.slots[n.Name] = n
		}
	}
	p.note("plan", "cost $5", started)
	return started, p.check(started)
}
`

func TestRewrite(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           string // what the place, with its surroundings, becomes; or a part of the error
	}{
		{"an expression", "$a >= $b", "$a > $b", "if all > p.in.limit || p.paused {"},
		{"names that are spelled", "all >= p.in.limit", "false", "if false || p.paused {"},
		{"the end of a chain of names", "$a >= $p.limit", "$a >= $p.in.limit", "if all >= p.in.in.limit || p.paused {"},
		{"what operators would tear apart", "$x || $paused", "!$x", "if !(all >= p.in.limit) {"},
		{"a name of a field or a method", "!$n.$held($limit)", "!$n.Ready", "case n.Ready && !n.Ready:"},
		{"a type", "*$planner", "$planner", "func (p planner) plan"},
		{"dots of an argument", "$moving($nodes...)", "0", "all := 0 // in flight"},
		{"no dots of an argument", "$all := $moving($nodes)", "$all := 0", "the pattern matches nothing"},
		{"any arguments", `$note("plan", $*rest)`, "$note($*rest)", `p.note("cost $5", started)`},
		{"no arguments", `$note($*none, "plan", $*rest)`, `$note($*none "preview", $*rest)`, `p.note( "preview", "cost $5", started)`},
		{"arguments in a row", `"plan", "cost $5"`, `"cost $6"`, `p.note("cost $6", started)`},
		{"an element of a literal", "Since: $now", "Since: $now + 1", "slot{Since: p.now + 1}"},
		{"the same name, the same code", "$type{$Name: $n.$Name, $*_}", "$n", "append(started, n)"},
		{"the same name, other code", "$type{$Name: $n.$n, $*_}", "$n", "the pattern matches nothing"},
		{"statements in a row", "$lost++; $slots[$_] = $_", "$lost--", "case n.lost:\n\t\t\tp.lost--\n\t\t}"},
		{"statements that are not in a row", "$all := $_; for _, $n := range $_ { $*_ }", "", "the pattern matches nothing"},
		{"a body", "if $a || $b { $*then }", "if $b || $a { $*then }", "if p.paused || (all >= p.in.limit) { return nil, errBudget }"},
		{"a clause", "case $n.$lost: $*then", "case false: $*then", "case false: p.lost++\n\t\t\tp.slots[n.Name] = n\n\t\t}"},
		{"layout and comments", "{\n$all := $moving($nodes...)\nif $_ { $*_ }\n$*rest\n}", "{\n$*rest\n}", "err error) {\nfor _, n := range nodes"},
		{"a deletion", "$lost++", "", "case n.lost:\n\t\t\t\n\t\t\tp.slots"},
		{"two places", "return $x, $err", "return nil, nil", "ambiguous: it matches in lines [7 19]"},
		{"two ways in one place", "append($*a, $*b)", "append($*b)", "ambiguous: it matches in lines [12]"},
		{"two ways with one result", "append($*_, $*_)", "nil", "started = nil"},
		{"nothing", "$a < $b", "false", "the pattern matches nothing"},
		{"no change", "$a >= $b", "$a >= $b", "the pattern changes nothing"},
		{"an unknown name", "$a >= $b", "$c", "the replacement has $c, which the pattern has not"},
		{"everything", "$x", "false", "a metavariable alone"},
		{"no code", "if $x", "false", `"if $x" is no code`},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, "p.go", source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Rewrite(files.File(file.Pos()), source, file.Decls[0], c.from, c.to)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}
