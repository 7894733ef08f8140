package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// busySample is the sampling time of busyNow.
const busySample = 3 * time.Second

// machine describes this machine.
func machine() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// busyNow returns the share of all CPU time in use, before any of our programs run:
// results from a busy machine are not comparable.
func busyNow(ctx context.Context) (float64, error) {
	idle, all, err := cpuTimes()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, busySample); err != nil {
		return 0, err
	}
	idleAfter, allAfter, err := cpuTimes()
	if err != nil || allAfter == all {
		return 0, err
	}
	return 1 - float64(idleAfter-idle)/float64(allAfter-all), nil
}

// cpuTimes returns the idle time and all time of all cores since boot, in ticks.
func cpuTimes() (idle, all int, err error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the CPU times of the machine: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line)[1:] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, 0, fmt.Errorf("reading the CPU times of the machine: %w", err)
		}
		all += n
		if i == 3 || i == 4 { // idle and iowait
			idle += n
		}
	}
	return idle, all, nil
}
