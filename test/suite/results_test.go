package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const events = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestA"}
{"Action":"pass","Package":"a","Test":"TestA/quick","Elapsed":0.5}
{"Action":"pass","Package":"a","Test":"TestA/slow","Elapsed":3}
{"Action":"pass","Package":"a","Test":"TestA","Elapsed":3.5}
{"Action":"fail","Package":"a","Test":"TestB","Elapsed":1}
{"Action":"fail","Package":"a","Elapsed":4.6}
{"Action":"skip","Package":"without tests","Elapsed":0}
`

func TestSlowestListsSubtestsInsteadOfTheirTest(t *testing.T) {
	r, err := read(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	want := []timed{{"a", "TestA/slow", 3 * time.Second}, {"a", "TestB", time.Second}}
	if diff := cmp.Diff(want, r.slowest(2)); diff != "" {
		t.Errorf("slowest (-want +got):\n%s", diff)
	}
	if r.passed != 3 || r.failed != 1 {
		t.Errorf("%d passed and %d failed, want 3 and 1", r.passed, r.failed)
	}
}

func TestFailuresAreSubtestsWithTheirLastLines(t *testing.T) {
	const failing = `{"Action":"output","Package":"b","Test":"TestA/one","Output":"=== RUN   TestA/one\n"}
{"Action":"output","Package":"b","Test":"TestA/one","Output":"    a_test.go:1: two pods, want 3\n"}
{"Action":"output","Package":"b","Test":"TestA/one","Output":"        of which one "}
{"Action":"output","Package":"b","Test":"TestA/one","Output":"is Ready\n"}
{"Action":"output","Package":"b","Test":"TestA/one","Output":"a program of another test\n"}
{"Action":"output","Package":"b","Test":"TestA/one","Output":"        prints this\n"}
{"Action":"output","Package":"b","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"b","Test":"TestA/one"}
{"Action":"fail","Package":"b","Test":"TestA"}
{"Action":"output","Package":"b","Output":"FAIL\n"}
{"Action":"fail","Package":"b"}
{"Action":"output","Package":"c","Output":"panic: oops\n"}
{"Action":"fail","Package":"c"}
`
	r, err := read(strings.NewReader(failing))
	if err != nil {
		t.Fatal(err)
	}
	want := []failure{
		{timed{Package: "b", Test: "TestA/one"}, []string{"    a_test.go:1: two pods, want 3", "        of which one is Ready"}},
		{timed{Package: "c"}, []string{"panic: oops"}},
	}
	if diff := cmp.Diff(want, r.failures, cmp.AllowUnexported(failure{})); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestComplete(t *testing.T) {
	for name, test := range map[string]struct {
		events string
		want   error
	}{
		"a package without tests is not a skipped test": {events, nil},
		"a skipped test is named":                       {events + `{"Action":"skip","Package":"a","Test":"TestC"}`, errSkipped},
		"a run without tests":                           {`{"Action":"pass","Package":"a","Elapsed":4.6}`, errNoTests},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := read(strings.NewReader(test.events))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.complete(); !errors.Is(err, test.want) {
				t.Errorf("complete() = %v, want %v", err, test.want)
			}
		})
	}
}

func TestReadRejectsLinesThatAreNotEvents(t *testing.T) {
	if _, err := read(strings.NewReader(events + "panic: oops")); err == nil {
		t.Error("read accepted a line that is not an event")
	}
}

func TestAFuzzTargetWhoseTimeEndsHasNotFailed(t *testing.T) {
	const end = "fuzz: elapsed: 12s, execs: 178 (0/sec), new interesting: 6 (total: 29)\n    context deadline exceeded\n"
	for log, want := range map[string]bool{
		end: true,
		end + "    Failing input written to testdata/fuzz/FuzzA/1\n":               false,
		"    --- FAIL: FuzzA (0.00s)\n        a_test.go:1: it says something else": false,
	} {
		if got := onlyTimedOut(log); got != want {
			t.Errorf("onlyTimedOut(%q) = %t, want %t", log, got, want)
		}
	}
}
