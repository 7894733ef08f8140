// Command layers measures the structure of the production code: how files of a package
// use each other, and how large files, functions and types are.
//
//	go run ./test/layers           a table of the packages
//	go run ./test/layers --check   fails if files use each other in a cycle, or a size exceeds its limit
//	go run ./test/layers --back pkg/ota
//	                               lists the uses against the layers of a package
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"golang.org/x/tools/go/packages"
)

// Size limits for readability.
const (
	maxFile     = 400
	maxFunction = 60
	maxMethods  = 25
	// maxUpdater is for the package of the rollout's controller, which draws everything toward it.
	maxUpdater = 1500
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "layers: %v\n", err)
		os.Exit(1)
	}
}

func run(out *os.File, arguments []string) error {
	flags := flag.NewFlagSet("layers", flag.ContinueOnError)
	check := flags.Bool("check", false, "fail if files of a package use each other in a cycle, a size exceeds its limit, or a pod is deleted on a second way")
	back := flags.String("back", "", "list the uses against the layers of the packages below this `folder`")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	loaded, err := load("./api/...", "./charts/...", "./cmd/...", "./images/...", "./pkg/...", "./release/...")
	if err != nil {
		return err
	}
	all := measure(loaded)
	switch {
	case *check:
		if err := errors.Join(checkAll(all), checkDeletions(loaded)); err != nil {
			return err
		}
		return printRoads(io.Discard, loaded)
	case *back != "":
		printBack(out, all, *back)
	default:
		printTable(out, all)
		return printRoads(out, loaded)
	}
	return nil
}

// printRoads prints what something is turned into on each road, and by which function.
func printRoads(out io.Writer, loaded []*packages.Package) error {
	for _, r := range roads {
		ways, err := measureRoad(r, loaded)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		shapes, structs := r.distinct()
		fmt.Fprintf(w, "\n%s: %d shapes, %d struct types\n  %s\n", r.name, shapes, structs, r.shapes[0])
		for _, made := range ways {
			fmt.Fprintf(w, "  %s\tby %s\n", made.to, made.by)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// checkAll returns an error that lists all violations.
func checkAll(all []measured) error {
	var wrong []string
	for _, p := range all {
		for _, a := range p.uses.back() {
			wrong = append(wrong, fmt.Sprintf("%s: %s uses %s of %s, which uses it: move one of them", p.folder, a.from, a.name, a.to))
		}
		if p.folder == "pkg/daemonupdater" && p.lines > maxUpdater {
			wrong = append(wrong, fmt.Sprintf("%s has %d lines, more than %d: move a step into a package of its own", p.folder, p.lines, maxUpdater))
		}
		for _, over := range []struct {
			what  string
			size  sized
			limit int
			unit  string
		}{
			{"file", p.longestFile, maxFile, "lines"},
			{"function", p.longestFunction, maxFunction, "lines"},
			{"type", p.largestType, maxMethods, "methods"},
		} {
			if over.size.size > over.limit {
				wrong = append(wrong, fmt.Sprintf("%s: %s %s has %d %s, more than %d: divide it", p.folder, over.what, over.size.name, over.size.size, over.unit, over.limit))
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("findings: %d\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

func printBack(out *os.File, all []measured, folder string) {
	for _, p := range all {
		if p.folder != filepath.Clean(folder) && !strings.HasPrefix(p.folder, filepath.Clean(folder)+"/") {
			continue
		}
		for _, a := range p.uses.back() {
			fmt.Fprintf(out, "%s: %s uses %s of %s\n", p.folder, a.from, a.name, a.to)
		}
	}
}

func printTable(out *os.File, all []measured) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	fmt.Fprintln(w, "PACKAGE\tFILES\tLINES\tUSES\tBACK\tLONGEST FILE\tLONGEST FUNCTION\tMOST METHODS\tWITH FUNCTIONS")
	var sum struct{ files, lines, uses, back int }
	for _, p := range all {
		uses, back := len(p.uses.arrows()), len(p.uses.back())
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%v\t%v\t%v\t%v\n", p.folder, p.files, p.lines, uses, back, p.longestFile, p.longestFunction, p.largestType, p.mostTaken)
		sum.files, sum.lines, sum.uses, sum.back = sum.files+p.files, sum.lines+p.lines, sum.uses+uses, sum.back+back
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t\t\t\t\n", sum.files, sum.lines, sum.uses, sum.back)
}
