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

// busySample is how long busyNow looks.
const busySample = 3 * time.Second

// machine describes where this runs.
func machine() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// busyNow returns the share of all CPU time that is used now, before anything of
// ours runs: figures of a busy machine are not to be compared.
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
		return 0, 0, fmt.Errorf("reading how busy the machine is: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, field := range strings.Fields(line)[1:] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, 0, fmt.Errorf("reading how busy the machine is: %w", err)
		}
		all += n
		if i == 3 || i == 4 { // idle and iowait
			idle += n
		}
	}
	return idle, all, nil
}
