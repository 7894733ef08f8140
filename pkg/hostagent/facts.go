package hostagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

const (
	driverVersionFile = "sys/module/enflame/version"
	bootIDFile        = "proc/sys/kernel/random/boot_id"
)

// cardPattern excludes gcuctl and vgcu (components 1.0).
var cardPattern = regexp.MustCompile(`^gcu[0-9]+$`)

// facts reads the current state of the node. Unreadable facts are left out and explained in
// Host.Missing; Host is never nil. The error is that of ctx.
func (h host) facts(ctx context.Context, wanted task.Engine) (task.Facts, error) {
	files := readHostFacts(h.root)
	facts := task.Facts{Host: &files}
	note := func(what string, err error) {
		if err != nil {
			files.Missing = append(files.Missing, what+": "+err.Error())
		}
	}
	holders, err := within(ctx, h.reads, "holders", h.proc().holders)
	note("processes that have a device open", err)
	if err == nil {
		files.Holders = &holders
	}
	status, err := h.running(ctx, wanted)
	note("container engine", err)
	if err == nil {
		status.Instance, err = h.instanceOf(ctx, status.Engine)
		note("instance of "+string(status.Engine), err)
		status.Started, err = h.proc().began(status.Instance)
		note("start of "+string(status.Engine), err)
		facts.Runtime = &status.RuntimeFacts
		free, err := h.freeDisk(ctx, status.imageStore)
		note("free disk", err)
		if err == nil {
			files.FreeDiskBytes = &free
		}
	}
	if ctx.Err() != nil {
		return task.Facts{}, context.Cause(ctx)
	}
	return facts, nil
}

// running returns the status of the wanted engine, or of the detected one for Auto.
func (h host) running(ctx context.Context, wanted task.Engine) (engineStatus, error) {
	engine, err := h.detect(ctx, wanted)
	if err != nil {
		return engineStatus{}, err
	}
	status, err := h.ask(ctx, engine)
	status.Engine = engine
	return status, err
}

// readHostFacts reads the facts in files below a host root.
func readHostFacts(hostRoot string) task.HostFacts {
	host, err := openHost(hostRoot)
	if err != nil {
		return task.HostFacts{Missing: []string{err.Error()}}
	}
	defer func() { _ = host.close() }() // opened read-only
	return hostFactsOf(host)
}

func hostFactsOf(host fs.FS) task.HostFacts {
	var facts task.HostFacts
	note := func(what string, err error) {
		if err != nil {
			facts.Missing = append(facts.Missing, fmt.Sprintf("%s: %v", what, err))
		}
	}
	var err error
	facts.BootID, err = line(host, bootIDFile)
	note("boot id", err)
	cards, err := countCards(host)
	if err == nil {
		facts.Devices = &cards
	}
	note("devices", err)
	facts.DriverVersion, err = line(host, driverVersionFile)
	note("driver version", err)
	return facts
}

// freeDisk returns the bytes available to unprivileged users on the disk of a host directory.
func (h host) freeDisk(ctx context.Context, directory string) (bytes int64, err error) {
	return within(ctx, h.reads, "free disk of "+directory, func() (int64, error) { return freeDisk(h.root, directory) })
}

func freeDisk(hostRoot, directory string) (bytes int64, err error) {
	if directory == "" {
		return 0, errors.New("the engine does not report where it stores images")
	}
	host, err := openHost(hostRoot)
	if err != nil {
		return 0, err
	}
	defer func() { _ = host.close() }()
	opened, err := host.open(strings.TrimPrefix(directory, "/"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = opened.Close() }()
	var disk syscall.Statfs_t
	if err := syscall.Fstatfs(int(opened.Fd()), &disk); err != nil {
		return 0, err
	}
	return int64(disk.Bavail) * disk.Bsize, nil
}

func countCards(host fs.FS) (int, error) {
	entries, err := fs.ReadDir(host, devicesDirectory)
	if err != nil {
		return 0, err
	}
	cards := 0
	for _, entry := range entries {
		if cardPattern.MatchString(entry.Name()) && !entry.IsDir() {
			cards++
		}
	}
	return cards, nil
}

// line reads a one-line file.
func line(host fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(host, name)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("/%s is empty", name)
	}
	return text, nil
}
