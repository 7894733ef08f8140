// Mutants tests the tests: it applies seeded defects to the code that plans and
// rolls out upgrades, one at a time and without touching the tree, and fails
// unless the tests catch every one.
//
//	mutants [NAME...]
//
// Each defect is a mistake that an upgrade controller is known to make, or a rule
// of design section 3 or 4 turned round.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// packages whose tests have to catch the defects.
var packages = []string{"./pkg/daemonset/...", "./pkg/daemonupdater/...", "./pkg/upgradeplan/...", "./pkg/drain", "./pkg/nodeupgrade/...", "./pkg/gcucli/...", "./pkg/upgradeapi", "./pkg/ota/...", "./pkg/preview"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only []string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if output, err := test(ctx, "", packages); err != nil {
		return fmt.Errorf("the tests fail without any defect:\n%s", output)
	}
	survived := 0
	for i, m := range chosen {
		begin := time.Now()
		caught, err := m.try(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		word := "caught  "
		if !caught {
			word = "SURVIVED"
			survived++
		}
		fmt.Printf("%2d/%d %s %-28s %s (%s)\n", i+1, len(chosen), word, m.name, m.says, time.Since(begin).Round(100*time.Millisecond))
	}
	fmt.Printf("mutants: %d defects, %d caught, %d survived\n", len(chosen), len(chosen)-survived, survived)
	if survived > 0 {
		return errors.New("the tests do not notice the defects that survived")
	}
	return nil
}

func choose(only []string) ([]mutant, error) {
	if len(only) == 0 {
		return mutants, nil
	}
	var chosen []mutant
	for _, name := range only {
		i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no defect is named %q", name)
		}
		chosen = append(chosen, mutants[i])
	}
	return chosen, nil
}

// try builds the tests with the defect laid over the file and tells whether
// they fail. A defect that does not apply, or does not compile, is an error.
func (m mutant) try(ctx context.Context) (caught bool, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return false, fmt.Errorf("reading the file to change: %w", err)
	}
	if n := strings.Count(string(source), m.from); n != 1 {
		return false, fmt.Errorf("%q stands %d times in %s, expected once", m.from, n, m.file)
	}
	dir, err := os.MkdirTemp("", "gcu-mutant-")
	if err != nil {
		return false, fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir, string(source))
	if err != nil {
		return false, err
	}
	for _, group := range m.packages() {
		output, failed := test(ctx, overlay, group)
		if ctx.Err() != nil {
			return false, errors.New("interrupted")
		}
		if failed != nil && strings.Contains(output, "[build failed]") {
			return false, fmt.Errorf("it does not compile:\n%s", output)
		}
		if failed != nil {
			return true, nil
		}
	}
	return false, nil
}

// packages are those of the file, whose tests are quick and mostly see the
// defect, and then all.
func (m mutant) packages() [][]string {
	return [][]string{{"./" + filepath.Dir(m.file)}, packages}
}

// overlay writes the changed file and the map that lays it over the original.
func (m mutant) overlay(dir, source string) (string, error) {
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", m.file, err)
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, []byte(strings.Replace(source, m.from, m.to, 1)), 0o600); err != nil {
		return "", fmt.Errorf("writing the changed file: %w", err)
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return path, nil
}

// test runs the tests of packages, with an overlay unless it is "". A defect may
// keep them from coming to an end.
func test(ctx context.Context, overlay string, packages []string) (output string, err error) {
	args := []string{"test", "-short", "-failfast", "-vet=off", "-count=1", "-timeout=2m"}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, packages...)...)
	data, err := command.CombinedOutput()
	return string(data), err
}
