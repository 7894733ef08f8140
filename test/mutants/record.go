package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// recordPath is the record in the tree. It also documents which test protects a rule.
const recordPath = "test/mutants/caught.tsv"

// catcher is the first test that caught a defect.
type catcher struct {
	pkg, test string
	// short is whether it did so without an API server and with few seeds.
	short bool
}

// attempt runs only this test.
func (c catcher) attempt() attempt {
	flags := []string{"-run=^" + c.test + "$", "-timeout=15m"}
	if c.short {
		flags = append(flags, "-short")
	}
	return attempt{[]string{c.pkg}, flags}
}

// record is, for each defect by name, the test that caught it last. It is tried first,
// which takes seconds instead of minutes; any other test may catch the defect too. Safe
// for concurrent use.
type record struct {
	mu   sync.Mutex
	path string
	by   map[string]catcher
}

// readRecord reads a record of lines of tab-separated name, package, test and short or
// full; without a file it is empty.
func readRecord(path string) (*record, error) {
	r := &record{path: path, by: map[string]catcher{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which test caught what: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s: %q is not name, package, test and short or full", path, line)
		}
		r.by[fields[0]] = catcher{pkg: fields[1], test: fields[2], short: fields[3] == "short"}
	}
	return r, nil
}

// of returns the test that caught a defect last.
func (r *record) of(name string) (catcher, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.by[name]
	return c, ok
}

// set records a test and writes the file, so that an interrupted run loses nothing.
// Defects that no longer exist are dropped.
func (r *record) set(name string, c catcher) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[name] == c {
		return nil
	}
	r.by[name] = c
	var out bytes.Buffer
	for _, name := range slices.SortedFunc(maps.Keys(r.by), cmp.Compare[string]) {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			continue
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\n", name, r.by[name].pkg, r.by[name].test, map[bool]string{true: "short", false: "full"}[r.by[name].short])
	}
	if err := os.WriteFile(r.path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing which test caught what: %w", err)
	}
	return nil
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+) `)
	// saysWhy is in the output of a test that failed or ended the program.
	saysWhy       = regexp.MustCompile(`(?m)^(--- FAIL: |panic: |fatal error: )`)
	failedPackage = regexp.MustCompile(`(?m)^FAIL\t\S+?/((?:pkg|cmd|api|test)/\S+)`)
)

// catcherIn finds the first failed test in the output of an attempt. ok is false if it
// names none, such as after a failed TestMain.
func catcherIn(output string, of attempt) (c catcher, ok bool) {
	test := failedTest.FindStringSubmatchIndex(output)
	if test == nil {
		return catcher{}, false
	}
	c = catcher{pkg: of.packages[0], test: output[test[2]:test[3]], short: slices.Contains(of.flags, "-short")}
	if len(of.packages) == 1 {
		return c, true
	}
	for _, p := range failedPackage.FindAllStringSubmatchIndex(output, -1) {
		if p[0] > test[0] {
			c.pkg = "./" + output[p[2]:p[3]]
			return c, true
		}
	}
	return catcher{}, false
}
