package main

import (
	"slices"
	"strings"
	"testing"
)

// graphOf builds a graph from words such as "a>b": a uses b.
func graphOf(arrows string) graph {
	g := graph{}
	for _, a := range strings.Fields(arrows) {
		from, to, _ := strings.Cut(a, ">")
		if g[from] == nil {
			g[from] = map[string]string{}
		}
		g[from][to] = "something"
	}
	return g
}

// TestBack: arrows against the layers are returned, and none if there are no cycles.
func TestBack(t *testing.T) {
	for _, c := range []struct{ name, arrows, want string }{
		{"nothing", "", ""},
		{"a chain", "a>b b>c", ""},
		{"a chain, against the alphabet", "c>b b>a c>a", ""},
		{"two files that use each other", "a>b b>a", "b>a"},
		{"a cycle of three", "a>b b>c c>a", "c>a"},
		{"a file that all use, and that uses one of them", "a>x b>x c>x x>a", "x>a"},
		{"two cycles", "a>b b>a c>d d>c b>c", "a>b d>c"},
	} {
		var got []string
		for _, a := range graphOf(c.arrows).back() {
			got = append(got, a.from+">"+a.to)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}

// TestMeasure measures this package, and one in which files use each other.
func TestMeasure(t *testing.T) {
	loaded, err := load(".", "./testdata/circle")
	if err != nil {
		t.Fatal(err)
	}
	all := measure(loaded)
	if len(all) != 2 || all[0].folder != "test/layers" || all[1].folder != "test/layers/testdata/circle" {
		t.Fatalf("measured %v", all)
	}
	if back := all[0].uses.back(); len(back) > 0 {
		t.Errorf("files of this package use each other: %v", back)
	}
	circle := all[1]
	if back := circle.uses.back(); len(back) != 1 || circle.files != 2 || circle.largestType != (sized{"thing", 2}) || circle.longestFunction != (sized{"second", 6}) {
		t.Errorf("of the circle: back %v, %+v", back, circle)
	}
	if err := checkAll(all[:1]); err != nil {
		t.Error(err)
	}
	if err := checkAll(all); err == nil || !strings.Contains(err.Error(), "findings: 1\ntest/layers/testdata/circle: ") {
		t.Errorf("the check says %v", err)
	}
}
