// Package process starts programs that outlive the starting process, and stops them
// reliably.
//
// A process is identified by its id and start time: the id alone may have been reused
// by another process, which must not be signaled. Both are read from /proc, so this
// works on Linux only.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Record identifies a started process, also for other programs.
type Record struct {
	Command
	// PID is the process id.
	PID int `json:"pid"`
	// StartTicks is the start time in clock ticks since boot.
	StartTicks uint64 `json:"startTicks"`
}

// Process is a child of this program.
type Process struct {
	Record
	exited chan struct{}
	err    error
}

// Command describes a process to start.
type Command struct {
	// Name is the component's name, such as "etcd".
	Name string `json:"name"`
	// Path is the program.
	Path string `json:"path"`
	// Args are its arguments without the program.
	Args []string `json:"args"`
	// Dir is its working directory and home.
	Dir string `json:"dir"`
	// Log is the path of the file for its output.
	Log string `json:"log"`
}

// Start starts a program in its own session, so that neither Ctrl-C in a terminal nor
// our exit ends it. It gets a minimal environment, so that the user's environment
// does not affect the cluster. Its log is truncated first.
func Start(c Command) (*Process, error) { return start(c, os.O_TRUNC) }

// Again starts the program of a process that has ended once more, with the same
// arguments. Its log is continued.
func Again(r Record) (*Process, error) {
	if r.Alive() {
		return nil, fmt.Errorf("starting %s: it runs already (pid %d)", r.Name, r.PID)
	}
	return start(r.Command, os.O_APPEND)
}

func start(c Command, logFlag int) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|logFlag, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", c.Name, err)
	}
	// The child has its own copy of the file.
	defer func() { _ = log.Close() }()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = []string{"HOME=" + c.Dir, "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", c.Name, err)
	}
	p := &Process{
		Record: Record{Command: c, PID: cmd.Process.Pid},
		exited: make(chan struct{}),
	}
	// A process that has already exited has no start time; Exited reports it.
	if stat, err := readStat(p.PID); err == nil {
		p.StartTicks = stat.startTicks
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Exited reports whether the process has exited, and its exit status as an error.
func (p *Process) Exited() (bool, error) {
	select {
	case <-p.exited:
		if p.err == nil {
			return true, errors.New("exit status 0")
		}
		return true, p.err
	default:
		return false, nil
	}
}

// Alive reports whether the recorded process still runs. Zombies do not count.
func (r Record) Alive() bool {
	stat, err := readStat(r.PID)
	return err == nil && stat.startTicks == r.StartTicks && stat.state != 'Z' && stat.state != 'X'
}

type procStat struct {
	state      byte
	startTicks uint64
}

func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, fmt.Errorf("reading the state of process %d: %w", pid, err)
	}
	return parseStat(string(data))
}

// parseStat reads a line of /proc/PID/stat (see proc(5)). The program's name in
// parentheses may contain anything, so counting starts after the last one.
func parseStat(line string) (procStat, error) {
	const startTimeField = 22 - 3 // the state, field 3, is the first one after the name
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) <= startTimeField {
		return procStat{}, fmt.Errorf("reading a process state: %d fields are too few", len(fields))
	}
	ticks, err := strconv.ParseUint(fields[startTimeField], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("reading a process start time: %w", err)
	}
	return procStat{state: fields[0][0], startTicks: ticks}, nil
}
