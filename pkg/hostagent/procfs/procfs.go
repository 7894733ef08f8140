package procfs

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/topsops/gcu-operator/pkg/message"
)

var (
	// containers are named by 64 hexadecimal digits; systemd has the engine before them.
	containers = regexp.MustCompile(`^(?:([a-z-]+)-)?([0-9a-f]{64})(?:\.scope)?$`)
	// pods have a UID, in which systemd has "_" for "-", or a hash if they are static. With systemd the name of
	// a kubelet's --cgroup-root comes first.
	pods = regexp.MustCompile(`^(?:(?:.+-)?kubepods[a-z-]*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)
	// engines by the name in a scope, or of the directory.
	engines = map[string]string{"docker": "docker", "cri-containerd": "containerd", "nerdctl": "containerd", "crio": "cri-o", "libpod": "podman"}
)

// ContainerOf returns the container and the pod UID of a process from /proc/PID/cgroup; "" outside of
// one. The container is engine://id, or the id if the engine is not known; of nested containers
// the outermost, without the pods of a cluster inside a container. The paths may start at any level: the kernel
// shows them relative to the cgroup namespace of the reader.
func ContainerOf(cgroup string) (container, podUID string) {
	for line := range strings.Lines(cgroup) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		c, p := whereIn(fields[2])
		if p != "" && podUID == "" || container == "" {
			container, podUID = c, p
		}
	}
	return container, podUID
}

// whereIn is ContainerOf for one path. A pod inside a container is not of this node's kubelet; below
// user.slice anyone may give a group the name of a pod.
func whereIn(path string) (container, podUID string) {
	before, ofUser := "", false
	for name := range strings.SplitSeq(path, "/") {
		ofUser = ofUser || name == "user.slice"
		if pod := pods.FindStringSubmatch(name); pod != nil && podUID == "" && container == "" && !ofUser {
			podUID = strings.ReplaceAll(pod[1], "_", "-")
		}
		if is := containers.FindStringSubmatch(name); is != nil && container == "" {
			container = is[2]
			if is[1] != "" {
				before = is[1]
			}
			if engine := engines[before]; engine != "" {
				container = engine + "://" + container
			}
		}
		before = name
	}
	return container, podUID
}

// Identity returns the name and the real user of a process from /proc/PID/status. Characters
// of the name that cannot be shown are replaced.
func Identity(status string) (command string, uid int64, err error) {
	var named, owned bool
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch {
		case key == "Name" && !named:
			named, command = true, shown(value)
		case key == "Uid" && !owned:
			first, _, _ := strings.Cut(value, "\t")
			if uid, err = strconv.ParseInt(first, 10, 64); err != nil {
				return "", 0, fmt.Errorf("reading the user of a process: %w", err)
			}
			owned = true
		}
	}
	if !named || !owned {
		return "", 0, errors.New("the status of a process has no name or no user")
	}
	return command, uid, nil
}

// Ended reports whether a process or a thread has ended and only waits to be reaped, from its status in /proc.
func Ended(status string) bool { return strings.Contains(status, "\nState:\tZ") } // the kernel escapes a newline in the name

// HasOneThread reports whether a process has no other thread than its main one, from its status in /proc.
func HasOneThread(status string) bool { return strings.Contains(status, "\nThreads:\t1\n") }

// shown returns a name that can be shown; the kernel has at most 15 bytes, escaped.
func shown(name string) string {
	const most = 64
	return message.Short(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name), most)
}
