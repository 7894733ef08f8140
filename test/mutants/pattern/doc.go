// Package pattern rewrites Go code whose syntax tree matches a pattern. A pattern is Go
// code with metavariables, as in gogrep and gopatch:
//
//	$limit     any one expression, name, type or statement
//	$*rest     any number of them, in a list of statements, arguments or elements
//	$_, $*_    the same, without a name
//
// A name that occurs twice matches the same code twice. Everything else in a pattern
// matches literally; layout and comments are ignored. A pattern is one of
//
//	$all >= $limit                     an expression
//	$name: $value                      elements of a literal, or arguments: a, b
//	$slot.Queued = false; return       consecutive statements
//	case $Paused: $*_                  clauses of a switch
//
// Because $limit matches p.limit as well as budget.limit(), code can be renamed and moved
// without changing a pattern that has no literal names. Use a literal name where the
// shape alone is ambiguous.
//
// Existing libraries do not fit: mvdan.cc/gogrep is archived and a program, its successor
// github.com/quasilyte/gogrep had its last release in 2022 and only matches, and
// github.com/uber-go/gopatch changes all matches of a file without counting them.
package pattern
