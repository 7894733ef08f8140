//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

// startOver is the time after the start by which the agent has made its first contact and is idle.
const startOver = 30 * time.Second

// forgetStart releases memory that only the start needed, once the start is over: free
// parts of the heap, and the program's code, most of which runs once. Code that is needed
// again is read from the page cache.
func forgetStart(ctx context.Context, log logr.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(startOver):
	}
	debug.FreeOSMemory()
	if bytes, err := unmapCode(); err != nil {
		log.V(1).Info("Cannot give back the memory of the start", "cause", err.Error())
	} else {
		log.V(4).Info("Gave back the memory of the start", "mapped", bytes)
	}
}

// unmapCode releases the pages of the program's code. They are never written, so they are
// read from the file again when executed. It returns how many bytes were mapped.
func unmapCode() (bytes uintptr, err error) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, fmt.Errorf("finding the program: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, fmt.Errorf("reading the memory map: %w", err)
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "r-xp" || fields[5] != program {
			continue
		}
		var from, to uintptr
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
			return bytes, fmt.Errorf("reading the memory map: %w", err)
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED); errno != 0 {
			return bytes, fmt.Errorf("giving back code: %w", errno)
		}
		bytes += to - from
	}
	return bytes, nil
}
