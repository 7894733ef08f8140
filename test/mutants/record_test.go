package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheRecordNamesTheFirstFailedTest(t *testing.T) {
	const output = `ok  	example.com/operator/pkg/drain	0.5s
    --- FAIL: TestInner (0.00s)
--- FAIL: TestOuter (0.00s)
    x_test.go:1: no
FAIL
FAIL	example.com/operator/pkg/drain/policy	0.2s
FAIL	example.com/operator/pkg/ota	0.2s
FAIL
`
	several := attempt{[]string{"./pkg/drain", "./pkg/drain/policy", "./pkg/ota"}, []string{"-short"}}
	got, ok := catcherIn(output, several)
	want := catcher{pkg: "./pkg/drain/policy", test: "TestOuter", short: true}
	if !ok || got != want {
		t.Errorf("catcherIn = %+v, %t, want %+v", got, ok, want)
	}
	if got, ok := catcherIn("FAIL\texample.com/operator/pkg/ota [setup failed]\n", several); ok {
		t.Errorf("catcherIn found %+v in an output that names no test", got)
	}
	// Compiled tests do not name their package.
	got, ok = catcherIn("--- FAIL: TestOuter (0.00s)\nFAIL\n", attempt{packages: []string{"./pkg/ota"}})
	if want := (catcher{pkg: "./pkg/ota", test: "TestOuter"}); !ok || got != want {
		t.Errorf("catcherIn = %+v, %t, want %+v", got, ok, want)
	}
}

func TestTheRecordIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "caught.tsv")
	written, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]catcher{
		mutants[0].name: {pkg: "./pkg/drain", test: "TestA", short: true},
		mutants[1].name: {pkg: "./pkg/ota", test: "TestB"},
	}
	for name, c := range want {
		if err := written.set(name, c); err != nil {
			t.Fatal(err)
		}
	}
	read, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read.by, cmp.AllowUnexported(catcher{})); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
