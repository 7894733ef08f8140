package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// attempt is a run of tests that may catch a defect.
type attempt struct {
	packages []string
	flags    []string
}

// Flags of go test.
var (
	// quickly skips tests that need an API server, and the simulations.
	quickly = []string{"-short", "-skip=^TestSimulation", "-timeout=15m"}
	// simulations plays few seeds.
	simulations = []string{"-short", "-run=^TestSimulation", "-timeout=10m"}
	onAPIServer = []string{"-skip=^TestSimulation", "-timeout=15m"}
	manySeeds   = []string{"-run=^TestSimulation", "-timeout=30m"}
)

// runner runs tests of the packages with all defects.
type runner struct {
	// overlay is the map of the changed files, and dir where the programs are.
	dir, overlay string
}

// program is the compiled tests of a package. It exists only for those that are known to catch something.
func (r runner) program(pkg string) string {
	return filepath.Join(r.dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
}

// compile compiles the tests that caught the defects last, once for all of them, and fails unless each
// passes without a defect.
func (r runner) compile(ctx context.Context, known []*trial) error {
	tests := map[string]map[string][]string{} // names by package and other flags
	for _, t := range known {
		a := t.left[0].attempt
		pkg, name, others := a.packages[0], strings.Trim(strings.TrimPrefix(a.flags[0], "-run="), "^$"), strings.Join(a.flags[1:], " ")
		if tests[pkg] == nil {
			tests[pkg] = map[string][]string{}
		}
		if !slices.Contains(tests[pkg][others], name) {
			tests[pkg][others] = append(tests[pkg][others], name)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for pkg, of := range tests {
		group.Go(func() error {
			if output, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+r.overlay, "-o", r.program(pkg), pkg).CombinedOutput(); err != nil {
				return fmt.Errorf("compiling the tests of %s with all defects (go test ./test/mutants says which one does not compile): %w\n%s", pkg, err, output)
			}
			for others, names := range of {
				if err := r.checkWithout(ctx, attempt{[]string{pkg}, append([]string{"-run=^(" + strings.Join(names, "|") + ")$"}, strings.Fields(others)...)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// checkWithout fails unless tests pass without any defect.
func (r runner) checkWithout(ctx context.Context, a attempt) error {
	if output, err := r.test(ctx, 0, a); err != nil {
		return fmt.Errorf("the tests fail without any defect:\n%s", output)
	}
	return nil
}

// test runs tests with the defect of a number; 0 is none. They have a timeout, because a defect
// may make them hang; that is no proof, because a busy machine does too. Those without an API
// server end with the first package that fails.
func (r runner) test(ctx context.Context, number int, a attempt) (output string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	command := r.command(ctx, a)
	// With CI set, a test skipped by -short would fail, and so every defect would be caught.
	command.Env = append(os.Environ(), "CI=", "FRESH=0", fmt.Sprintf("%s=%d", chosen, number))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("starting the tests: %w", err)
	}
	go func() { _ = writer.CloseWithError(command.Wait()) }()
	var all strings.Builder
	lines := bufio.NewReader(reader)
	for err == nil {
		var line string
		line, err = lines.ReadString('\n')
		all.WriteString(line)
		if strings.HasPrefix(line, "FAIL\t") && slices.Contains(a.flags, "-short") {
			stop()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all.String(), err
}

// command runs the tests of a package that are compiled already, or go test.
func (r runner) command(ctx context.Context, a attempt) *exec.Cmd {
	program := r.program(a.packages[0])
	if _, err := os.Stat(program); err == nil && len(a.packages) == 1 {
		args := []string{"-test.paniconexit0", "-test.failfast"}
		for _, flag := range a.flags {
			args = append(args, "-test."+strings.TrimPrefix(flag, "-"))
		}
		command := exec.CommandContext(ctx, program, args...)
		command.Dir = a.packages[0]
		return command
	}
	args := append([]string{"test", "-failfast", "-vet=off", "-count=1", "-overlay=" + r.overlay}, a.flags...)
	return exec.CommandContext(ctx, "go", append(args, a.packages...)...)
}
