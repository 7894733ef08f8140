package procfs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	id   = "3f2a9c1b2d3e4f5061728394a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7d8"
	uid  = "0b0e1d2c-3f4a-4b5c-8d6e-7f8091a2b3c4"
	file = "d41d8cd98f00b204e9800998ecf8427e" // the UID of a static pod
)

// A device whose node the host no longer has, or never had, is known by its name.
func TestADeviceOfWhichTheHostHasNoNode(t *testing.T) {
	for link, want := range map[string]string{
		"/dev/gcu0":                "/dev/gcu0",
		"/dev/gcu10":               "/dev/gcu10",
		"/dev/vgcu3":               "/dev/vgcu3",
		"/dev/gcuctl":              "/dev/gcuctl", // it is of the same module
		"/dev/gcu0 (deleted)":      "/dev/gcu0",
		"/host/dev/gcu0":           "/dev/gcu0",
		"/host/dev/gcu0 (deleted)": "/dev/gcu0",
		"/home/dev/gcu0":           "/dev/gcu0",
		"/dev/dri/by-path/gcu0":    "/dev/gcu0",
		"/dev/null":                "",
		"/dev/xgcu0":               "",
		"/dev/gcu0\nx":             "",
		"socket:[/dev/gcu0]":       "",
		"/dev/gcu" + long:          "",
		"":                         "",
	} {
		if got := (Devices{}).Opened(link, File{Character: true, Number: 7}); got != want {
			t.Errorf("Opened(%q) = %q, want %q", link, got, want)
		}
		if got := (Devices{}).Opened(link, File{Number: 7}); got != "" {
			t.Errorf("Opened(%q), which is no device, = %q", link, got)
		}
	}
}

func TestADeviceIsKnownByItsNumber(t *testing.T) {
	card := func(number uint64) File { return File{Character: true, Number: number} }
	devices := DevicesOf(map[string]File{"gcu0": card(10), "gcu1": card(11), "null": card(3), "full": card(4), "gcu2": card(4), "gcu3": {Number: 12}, "stderr": {Number: 10}})
	for _, tc := range []struct {
		link string
		file File
		want string
	}{
		{"/dev/gcu0", card(10), "/dev/gcu0"},
		{"/host/dev/gcu0", card(10), "/dev/gcu0"},
		{"/dev/card (deleted)", card(10), "/dev/gcu0"},
		{"/dev/gcu0", card(11), "/dev/gcu1"}, // a container has only this one
		{"/dev/gcu0", card(3), ""},           // anyone can make a node of /dev/null with this name
		{"/dev/gcu0", File{Number: 10}, ""},  // a file
		{"/dev/null", card(3), ""},
		{"/dev/gcu2", card(4), "/dev/gcu2"}, // both have the number: the name tells
		{"/dev/full", card(4), ""},
		{"", card(4), "/dev/gcu2"}, // the kernel does not tell the name
		{"", card(3), ""},
		{"/dev/gcu3", card(12), "/dev/gcu3"},
		{"/dev/card", card(12), ""},
	} {
		if got := devices.Opened(tc.link, tc.file); got != tc.want {
			t.Errorf("%s with %+v: %q, want %q", tc.link, tc.file, got, tc.want)
		}
	}
}

var long = strings.Repeat("x", 300)

func TestMapped(t *testing.T) {
	const libc = "7f10c0000000-7f10c0028000 r--p 00000000 fe:01 1234                       /usr/lib/x86_64-linux-gnu/libc.so.6\n"
	devices := DevicesOf(map[string]File{"gcu0": {Character: true, Number: 10, Minor: 6, Inode: 344}, "null": {Character: true, Number: 3, Minor: 6, Inode: 4}, "gcu9": {Minor: 6, Inode: 9}})
	at := func(path string) (File, error) {
		switch path {
		case "/dev/gcu1":
			return File{Character: true, Minor: 6, Inode: 345}, nil
		case "/dev/gcu2":
			return File{Minor: 7, Inode: 20}, nil
		}
		return File{}, errors.New("it cannot be looked at")
	}
	for name, tc := range map[string]struct{ maps, want string }{
		"a card under another path":        {libc + "7f10d0000000-7f10d0001000 rw-s 00010000 00:06 344                        /host/dev/gcu0\n", "/dev/gcu0"},
		"a card with another name":         {"7f10d0000000-7f10d0001000 rw-s 00010000 00:06 344 /a card\n", "/dev/gcu0"},
		"another device":                   {"7f10d0000000-7f10d0001000 rw-s 00010000 00:06 4 /dev/null\n7f10d0000000-7f10d0001000 rw-s 00010000 00:07 344 /dev/x\n", ""},
		"a file":                           {"7f10d0000000-7f10d0001000 rw-s 00010000 00:06 9 /host/dev/gcu9\n7f10d0000000-7f10d0001000 r-xp 00000000 00:07 9 /usr/bin/gcu-exporter\n", ""},
		"none":                             {libc + "7ffd0000-7ffd1000 rw-p 00000000 00:00 0    [stack]\n", ""},
		"a card that cannot be looked at":  {"7f10d0000000-7f10d0001000 rw-s 00010000 00:00 0 /dev/gcu3", "/dev/gcu3"},
		"a card":                           {libc + "7f10d0000000-7f10d0001000 rw-s 00010000 00:06 345                        /dev/gcu1\n", "/dev/gcu1"},
		"a card whose driver was reloaded": {"7f10d0000000-7f10d0001000 rw-s 00010000 00:06 345 /dev/gcu1 (deleted)", "/dev/gcu1"},
		"memory that is named like a card": {"7f10d0000000-7f10d0001000 rw-p 00000000 00:00 0 [anon:/dev/gcu1]", ""},
		"another file below a card's name": {"7f10d0000000-7f10d0001000 rw-p 00000000 00:00 0 /dev/shm/dev/gcu1", ""},
		"a card after a file with a long path": {"7f10d0000000-7f10d0001000 r--p 00000000 00:07 9 " + strings.Repeat("/x", 1<<17) + "\n" +
			"7f10d0000000-7f10d0001000 rw-s 00010000 00:06 345 /dev/gcu1\n", "/dev/gcu1"},
		"a card below a long path": {"7f10d0000000-7f10d0001000 rw-s 00010000 00:06 344 " + strings.Repeat("/x", 1<<17) + "\n", "/dev/gcu0"},
		"a long path that goes on like a line": {fmt.Sprintf("%-4096s", "7f10d0000000-7f10d0001000 r--p 00000000 00:07 9 /x") + libc +
			fmt.Sprintf("%-4096s", "7f10d0000000-7f10d0001000 r--p 00000000 00:07 9 /x") + "7f10d0000000-7f10d0001000 rw-s 00010000 00:06 345 /dev/gcu1\n", ""},
		"a file that is named like a card":             {"7f10d0000000-7f10d0001000 rw-s 00010000 00:07 20 /dev/gcu2\n", ""},
		"a file with a name that starts like a card's": {"7f10d0000000-7f10d0001000 rw-s 00010000 00:07 20 /dev/gcu2 x\n", ""},
		"a card, where there is a file now":            {"7f10d0000000-7f10d0001000 rw-s 00010000 00:07 21 /dev/gcu2\n", "/dev/gcu2"},
		"nothing":                                      {"", ""},
		"no maps":                                      {"/dev/gcu1\n", ""},
	} {
		if got, err := devices.Mapped(strings.NewReader(tc.maps), at); got != tc.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

// A process may have a file that is named like a card mapped many thousand times.
func TestOnlySomeOfWhatAProcessHasMappedIsLookedAt(t *testing.T) {
	for lines, want := range map[int]string{maxLooks: "", maxLooks + 1: "/dev/gcu2", 1 << 12: "/dev/gcu2"} {
		looks := 0
		at := func(string) (File, error) { looks++; return File{Minor: 7, Inode: 20}, nil }
		maps := strings.Repeat("7f10d0000000-7f10d0001000 rw-s 00010000 00:07 20 /dev/gcu2\n", lines)
		if got, err := (Devices{}).Mapped(strings.NewReader(maps), at); got != want || err != nil || looks > maxLooks {
			t.Errorf("%d lines: %q, %v, want %q; %d looks", lines, got, err, want, looks)
		}
	}
}

func TestWhere(t *testing.T) {
	for name, tc := range map[string]struct{ cgroup, container, pod string }{
		"a service of the host":       {"0::/system.slice/ssh.service", "", ""},
		"a session":                   {"0::/user.slice/user-1000.slice/session-3.scope", "", ""},
		"the root":                    {"0::/", "", ""},
		"docker with systemd":         {"0::/system.slice/docker-" + id + ".scope", "docker://" + id, ""},
		"docker without systemd":      {"12:devices:/docker/" + id + "\n1:name=systemd:/docker/" + id, "docker://" + id, ""},
		"below a container":           {"0::/system.slice/docker-" + id + ".scope/init.scope", "docker://" + id, ""},
		"podman":                      {"0::/machine.slice/libpod-" + id + ".scope/container", "podman://" + id, ""},
		"an engine that nobody knows": {"0::/garden/" + id, id, ""},
		"a pod with systemd": {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") +
			".slice/cri-containerd-" + id + ".scope", "containerd://" + id, uid},
		"a pod without systemd":    {"11:memory:/kubepods/besteffort/pod" + uid + "/" + id, id, uid},
		"a guaranteed pod":         {"0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/crio-" + id + ".scope", "cri-o://" + id, uid},
		"a static pod":             {"0::/kubepods/pod" + file + "/" + id, id, file},
		"a pod of cri-dockerd":     {"0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/docker-" + id + ".scope", "docker://" + id, uid},
		"seen from another pod":    {"0::/../../pod" + uid + "/" + id, id, uid}, // the path begins at the reader's cgroup
		"docker inside of a pod":   {"0::/kubepods/pod" + uid + "/" + id + "/docker/" + strings.ReplaceAll(id, "3", "4"), id, uid},
		"a pod in one hierarchy":   {"3:cpu:/\n2:pids:/kubepods/pod" + uid + "/" + id + "\n1:name=systemd:/", id, uid},
		"a container named pod":    {"0::/docker/pod-" + id, id, ""},
		"a directory named pod":    {"0::/podcasts/player.service", "", ""},
		"a short id":               {"0::/docker/3f2a", "", ""},
		"lines that are no cgroup": {"x\n::\n/docker/" + id, "", ""},
		"a pod below another root": {"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" +
			strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope", "containerd://" + id, uid},
		"the same without systemd": {"0::/kubelet/kubepods/burstable/pod" + uid + "/" + id, id, uid},
		"a pod inside of a plain container": { // k3d, minikube
			"0::/system.slice/docker-" + id + ".scope/kubepods/besteffort/pod" + uid + "/" + strings.ReplaceAll(id, "3", "4"), "docker://" + id, ""},
		"a directory of a user":    {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/pod" + file, "", ""},
		"the same seen from a pod": {"0::/../../../../user.slice/user-1000.slice/user@1000.service/pod" + uid + "/" + id, id, ""},
	} {
		if container, pod := ContainerOf(tc.cgroup); container != tc.container || pod != tc.pod {
			t.Errorf("%s: container %q of pod %q, want %q of %q", name, container, pod, tc.container, tc.pod)
		}
	}
}

func TestIdentity(t *testing.T) {
	const status = "Name:\tpython3\nUmask:\t0022\nState:\tS (sleeping)\nPid:\t7\nUid:\t1000\t0\t0\t0\nGid:\t5\t5\t5\t5\n"
	for name, tc := range map[string]struct {
		status, command string
		uid             int64
		ok              bool
	}{
		"a process":               {status, "python3", 1000, true},
		"a name with a space":     {strings.Replace(status, "python3", "my prog: x", 1), "my prog: x", 1000, true},
		"a name that is no text":  {strings.Replace(status, "python3", "a\xff\x1bb", 1), "a??b", 1000, true},
		"a name like another row": {strings.Replace(status, "python3", `a\nUid:`, 1), `a\nUid:`, 1000, true}, // the kernel escapes it
		"the largest uid":         {strings.Replace(status, "1000", "4294967295", 1), "python3", 4294967295, true},
		"no uid":                  {"Name:\tpython3\n", "", 0, false},
		"no name":                 {"Uid:\t1000\t0\t0\t0\n", "", 0, false},
		"a torn uid":              {"Name:\tx\nUid:\n", "", 0, false},
		"nothing":                 {"", "", 0, false},
	} {
		command, uid, err := Identity(tc.status)
		if command != tc.command || uid != tc.uid || (err == nil) != tc.ok {
			t.Errorf("%s: %q, %d, %v", name, command, uid, err)
		}
	}
}

func TestEnded(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nUmask:\t0022\nState:\tZ (zombie)\nTgid:\t7\n":             true,
		"Name:\tx\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\n":           false,
		"Name:\tx\\nState:\tZ (zombie)\nState:\tR (running)\n":               false, // the kernel escapes it
		"Name:\tState:\tZ\nUmask:\t0022\nState:\tD (disk sleep)\nTgid:\t7\n": false,
		"": false,
	} {
		if got := Ended(status); got != want {
			t.Errorf("%q: %t", status, got)
		}
	}
}

func TestHasOneThread(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nThreads:\t1\nSigQ:\t0/7\n":                  true,
		"Name:\tx\nThreads:\t12\nSigQ:\t0/7\n":                 false,
		"Name:\tx\\nThreads:\t1\\n\nThreads:\t2\nSigQ:\t0/7\n": false, // the kernel escapes it
	} {
		if got := HasOneThread(status); got != want {
			t.Errorf("%q: %t", status, got)
		}
	}
}

func FuzzProcessText(f *testing.F) {
	f.Add("0::/kubepods/pod" + uid + "/" + id)
	f.Add("0::/system.slice/docker-" + id + ".scope")
	f.Add("Name:\tx\nUid:\t1\t1\n")
	f.Add("7f10d0000000-7f10d0001000 rw-s 00010000 00:06 345 /dev/gcu1 (deleted)")
	f.Fuzz(func(t *testing.T, text string) {
		container, pod := ContainerOf(text)
		command, _, _ := Identity(text)
		device, _ := Devices{}.Mapped(strings.NewReader(text), func(string) (File, error) { return File{}, nil })
		for _, told := range []string{container, pod, command, device} {
			if !utf8.ValidString(told) || len(told) > 100 || strings.ContainsAny(told, "\n\x00") {
				t.Errorf("%q has %q", text, told)
			}
		}
	})
}
