package main

import (
	"cmp"
	"maps"
	"slices"
)

// graph maps each file to the files it uses, each with a name that it uses from it.
type graph map[string]map[string]string

// arrow is one use of a file by another.
type arrow struct{ from, to, name string }

// arrows returns all uses, sorted.
func (g graph) arrows() []arrow {
	var list []arrow
	for _, from := range slices.Sorted(maps.Keys(g)) {
		for _, to := range slices.Sorted(maps.Keys(g[from])) {
			list = append(list, arrow{from, to, g[from][to]})
		}
	}
	return list
}

// back returns the arrows against an order of the files: none if there are no cycles.
// The order is computed with the heuristic of Eades, Lin and Smyth, which keeps these
// arrows few.
func (g graph) back() []arrow {
	place := map[string]int{}
	for i, file := range g.order() {
		place[file] = i
	}
	return slices.DeleteFunc(g.arrows(), func(a arrow) bool { return place[a.from] < place[a.to] })
}

// order sorts files before the files that they use.
func (g graph) order() []string {
	left := map[string]bool{}
	for from, uses := range g {
		left[from] = true
		for to := range uses {
			left[to] = true
		}
	}
	var first, last []string
	for len(left) > 0 {
		best, bestScore := "", 0
		removed := false
		for _, file := range slices.Sorted(maps.Keys(left)) {
			out, in := g.degrees(file, left)
			switch {
			case out == 0:
				last = append(last, file)
			case in == 0:
				first = append(first, file)
			default:
				if best == "" || cmp.Compare(out-in, bestScore) > 0 {
					best, bestScore = file, out-in
				}
				continue
			}
			delete(left, file)
			removed = true
			break
		}
		if !removed {
			first = append(first, best)
			delete(left, best)
		}
	}
	slices.Reverse(last)
	return append(first, last...)
}

// degrees counts the arrows of a file to and from the files in left.
func (g graph) degrees(file string, left map[string]bool) (out, in int) {
	for to := range g[file] {
		if left[to] {
			out++
		}
	}
	for from := range left {
		if _, uses := g[from][file]; uses {
			in++
		}
	}
	return out, in
}
