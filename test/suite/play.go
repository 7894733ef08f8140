package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// outcome is the result of a step.
type outcome struct {
	step
	results
	took time.Duration
	// cpu is the CPU time of its processes that were waited for.
	cpu time.Duration
	// err is why the step failed; nil when it passed.
	err error
}

// folder returns the folder for the logs and results of a run's steps.
func folder(run string) string { return filepath.Join("bin", "suite", run) }

// play runs steps, lanes in parallel, and prints a report. If a step fails the others
// still run, and play returns an error.
func play(ctx context.Context, run string, steps []step) error {
	if err := os.MkdirAll(folder(run), 0o755); err != nil {
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	out := &lines{to: os.Stdout}
	begin := time.Now()
	outcomes := make([]outcome, len(steps))
	var group sync.WaitGroup
	for l := range niceness {
		group.Go(func() {
			for i, s := range steps {
				if s.lane == l {
					outcomes[i] = runStep(ctx, s, run, out)
				}
			}
		})
	}
	group.Wait()
	report(os.Stdout, outcomes, time.Since(begin))
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	failed := 0
	for _, o := range outcomes {
		if o.err != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d steps failed; their output is in %s", failed, len(outcomes), folder(run))
	}
	return nil
}

// lazyCollector makes Go programs, such as compilers and API servers, use more memory
// and a tenth less CPU.
const lazyCollector = "GOGC=400"

// runStep runs a step, and copies its output line by line to out and to its log.
func runStep(ctx context.Context, s step, run string, out *lines) outcome {
	begin := time.Now()
	o := outcome{step: s}
	path := filepath.Join(folder(run), s.name)
	fuzzes, shown := slices.Contains(s.test, fuzzingOnly), out
	if fuzzes {
		shown = &lines{to: io.Discard} // until it is known whether it is a failure
	}
	o.cpu, o.err = s.execute(ctx, path, shown)
	if s.test != nil {
		var err error
		if o.results, err = readFile(path + ".json"); err == nil && os.Getenv("CI") != "" {
			err = o.complete()
		}
		o.err = errors.Join(o.err, err)
	}
	if log, err := os.ReadFile(path + ".log"); fuzzes && err == nil {
		if o.failed == 1 && onlyTimedOut(string(log)) {
			o.err, o.passed, o.failed, o.failures = nil, 1, 0, nil
			log = []byte(s.name + ": the time to fuzz ended, without a finding\n")
		}
		out.copy(bytes.NewReader(log))
	}
	o.took = time.Since(begin)
	return o
}

// execute runs the program of a step, and returns the CPU time that it used.
func (s step) execute(ctx context.Context, path string, out *lines) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	log, err := os.Create(path + ".log")
	if err != nil {
		return 0, fmt.Errorf("creating its log: %w", err)
	}
	defer func() { _ = log.Close() }() // all output was also printed
	argv := s.argv
	if s.test != nil {
		results, err := filepath.Abs(path + ".json")
		if err != nil {
			return 0, fmt.Errorf("finding the folder of its results: %w", err)
		}
		argv = append([]string{os.Getenv("GOTESTSUM"), "--format=testdox", "--jsonfile=" + results, "--", "-vet=off", "-count=1"}, s.test...)
	}
	argv = append([]string{"nice", "-n", niceness[s.lane]}, argv...)
	command := exec.Command(argv[0], argv[1:]...)
	command.Dir = s.dir
	command.Env = append(append(os.Environ(), lazyCollector), s.env...)
	// In its own process group, so that all its children are signaled, and only by us.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		out.copy(io.TeeReader(reader, log))
	}()
	if err = command.Start(); err == nil {
		stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM) })
		err = command.Wait()
		stop()
	}
	_ = writer.Close()
	<-copied
	if command.ProcessState == nil {
		return 0, err
	}
	return command.ProcessState.UserTime() + command.ProcessState.SystemTime(), err
}

// onlyTimedOut reports whether a fuzz target failed only because its time ended, which
// Go before 1.27 reports as a failure if a worker is busy (golang/go#75804). A real
// failure writes its input to testdata.
func onlyTimedOut(log string) bool {
	return strings.Contains(log, "    context deadline exceeded\n") && !strings.Contains(log, "Failing input written to")
}

func readFile(path string) (results, error) {
	file, err := os.Open(path)
	if err != nil {
		return results{}, err
	}
	defer func() { _ = file.Close() }() // read-only
	return read(file)
}

// lines writes whole lines of concurrent steps.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// copy copies from, one line at a time.
func (l *lines) copy(from io.Reader) {
	buffered := bufio.NewReader(from)
	for {
		line, err := buffered.ReadBytes('\n')
		l.mu.Lock()
		_, _ = l.to.Write(line)
		l.mu.Unlock()
		if err != nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}
