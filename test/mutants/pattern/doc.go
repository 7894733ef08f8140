// Package pattern changes Go code where its syntax tree has a given shape. A pattern is Go
// with metavariables, as gogrep and gopatch have them:
//
//	$limit     any one expression, name, type or statement
//	$*rest     any number of them, in a list of statements, arguments or elements
//	$_, $*_    the same, without a name
//
// A name that stands twice is the same code twice. Everything else in a pattern stands for
// itself; layout and comments do not count. A pattern is one of
//
//	$all >= $limit                     an expression
//	$name: $value                      elements of a literal, or arguments: a, b
//	$slot.Queued = false; return       statements in a row
//	case $Paused: $*_                  clauses of a switch
//
// Since $limit stands for p.limit as well as for budget.limit(), code can be renamed and moved
// under a pattern that spells no names. A name is spelled where the shape alone is ambiguous.
//
// The libraries for this do not fit: mvdan.cc/gogrep is archived and a program, its successor
// github.com/quasilyte/gogrep had its last release in 2022 and replaces nothing, and
// github.com/uber-go/gopatch changes all places of a file and does not count them.
package pattern
