package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "suite: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("suite test|nodes|long", flag.ContinueOnError)
	only := flags.String("only", "", "`steps` to run, separated by commas (default: all)")
	list := flags.Bool("list", false, "print the steps instead of running them")
	if len(args) == 0 {
		return errors.New("missing argument: use suite test, suite nodes or suite long")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	steps, err := stepsOf(ctx, args[0])
	if err != nil {
		return err
	}
	if steps, err = choose(steps, *only); err != nil {
		return err
	}
	if *list {
		for _, s := range steps {
			fmt.Printf("%-28s %s\n", s.name, s.shows)
		}
		return nil
	}
	return play(ctx, args[0], steps)
}

func stepsOf(ctx context.Context, name string) ([]step, error) {
	if name == "nodes" {
		return nodeSteps(), nil
	}
	packages, err := packages(ctx)
	if err != nil {
		return nil, err
	}
	targets, err := fuzzTargets()
	if err != nil {
		return nil, err
	}
	switch name {
	case "test":
		return testSteps(packages, targets), nil
	case "long":
		return longSteps(packages, targets), nil
	}
	return nil, fmt.Errorf("%q is not a list of tests: use test, nodes or long", name)
}

// choose returns the steps with the given comma-separated names; all if names is empty.
func choose(steps []step, names string) ([]step, error) {
	if names == "" {
		return steps, nil
	}
	var chosen []step
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no step is named %q: see --list", name)
		}
		chosen = append(chosen, steps[i])
	}
	return chosen, nil
}

// packages returns the packages of the project with tests, as paths relative to its
// root.
func packages(ctx context.Context) ([]string, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}`
	command := exec.CommandContext(ctx, "go", "list", "-f", format, "./...")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var found []string
	for dir := range strings.FieldsSeq(string(output)) {
		path, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		found = append(found, "./"+path)
	}
	return found, nil
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// fuzzTargets returns all fuzz targets, in the order of their files.
func fuzzTargets() ([]target, error) {
	var found []target
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range fuzzTarget.FindAllSubmatch(source, -1) {
			found = append(found, target{pkg: "./" + filepath.Dir(path), name: string(match[1])})
		}
		return nil
	})
	return found, err
}
