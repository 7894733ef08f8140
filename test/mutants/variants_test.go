package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A changed function calls the variant that is chosen, whatever its shape; the rest of the file stays.
func TestVariantsOfFunctions(t *testing.T) {
	module := t.TempDir()
	source := `package a

type budget[T any] struct{ limit int }

// full is a method.
func (*budget[T]) full(n, m int) bool { return n > m }

func add[T any](to []T, more ...T) (all []T) { return append(to, more...) }

func show(string) { println(1) }

var last = 1
`
	if err := os.WriteFile(filepath.Join(module, "a.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	changes, err := changesOf(module, []mutant{
		{"show", "", ".", "show", "println(1)", "println(2)"},
		{"full", "", ".", "budget.full", "$n > $m", "true"},
		{"add", "", ".", "add", "append($all, $more...)", "$all"},
		{"not-full", "", ".", "budget.full", "$n > $m", "false"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a.go": `package a

type budget[T any] struct{ limit int }

// full is a method.
func (r__ *budget[T]) full(p0__ int, p1__ int) bool {
	switch mutant__ {
	case 2:
		return r__.full__2(p0__, p1__)
	case 4:
		return r__.full__4(p0__, p1__)
	}
	return r__.full__0(p0__, p1__)
}

func (*budget[T]) full__0(n, m int) bool { return n > m }

func (*budget[T]) full__2(n, m int) bool { return true }

func (*budget[T]) full__4(n, m int) bool { return false }

func add[T any](p0__ []T, p1__ ...T) (all []T) {
	switch mutant__ {
	case 3:
		return add__3[T](p0__, p1__...)
	}
	return add__0[T](p0__, p1__...)
}

func add__0[T any](to []T, more ...T) (all []T) { return append(to, more...) }

func add__3[T any](to []T, more ...T) (all []T) { return to }

func show(p0__ string) {
	switch mutant__ {
	case 1:
		show__1(p0__)
		return
	}
	show__0(p0__)
}

func show__0(string) { println(1) }

func show__1(string) { println(2) }

var last = 1
`,
		"zz_mutants.go": `package a

import (
	"os"
	"strconv"
)

var mutant__, _ = strconv.Atoi(os.Getenv("GCU_MUTANT"))
`,
	}
	if diff := cmp.Diff(want, variants(changes)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
