package hostagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/topsops/gcu-operator/pkg/hostagent/procfs"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/test/need"
)

// fakeProcess is a process below /proc.
type fakeProcess struct {
	name, cgroup, maps string
	// opens are paths of devices, files of files.
	opens, files []string
	// gone: it ends while it is looked at; closes: it closes what it has open.
	gone, closes bool
	// unreadable is a file of it that cannot be read.
	unreadable string
}

func fakeProc(t *testing.T, table map[int]fakeProcess) processes {
	t.Helper()
	files := map[string]string{"version": "Linux", "sys/kernel/random/boot_id": "b-1"}
	for pid, p := range table {
		of := func(name string) string { return filepath.Join(strconv.Itoa(pid), name) }
		files[of("cgroup")], files[of("maps")], files[of("fd/keep")] = p.cgroup, p.maps, ""
		if !p.gone {
			files[of("status")] = "Name:\t" + p.name + "\nUid:\t1000\t1000\t1000\t1000\n"
		}
		if p.unreadable != "" {
			delete(files, of(p.unreadable))
			files[of(p.unreadable+"/is-a-directory")] = ""
		}
	}
	root, elsewhere := fakeHost(t, files), t.TempDir()
	// open returns the path of what stands for an open file. A device is one that no host has under another name.
	open := func(path string, device bool) string {
		at := filepath.Join(elsewhere, strconv.FormatBool(device), path)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if device {
			_ = os.Symlink("/dev/full", at) // several have it open
		} else {
			err = errors.Join(err, os.WriteFile(at, nil, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for pid, p := range table {
		fds := filepath.Join(root, strconv.Itoa(pid), "fd")
		if err := os.Remove(filepath.Join(fds, "keep")); err != nil {
			t.Fatal(err)
		}
		for fd, path := range slices.Concat(p.opens, p.files) {
			at := open(path, fd < len(p.opens))
			if p.closes {
				at += "/nothing/gcu0"
			}
			if err := os.Symlink(at, filepath.Join(fds, strconv.Itoa(fd))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return processes{proc: root, dev: t.TempDir()}
}

func TestDeviceHolders(t *testing.T) {
	id := strings.Repeat("3f2a", 16)
	const pod = "0b0e1d2c-3f4a-4b5c-8d6e-7f8091a2b3c4"
	init := fakeProcess{name: "systemd", opens: []string{"/dev/null"}}
	many := map[int]fakeProcess{1: init, 99: {name: "host", opens: []string{"/dev/gcu0"}}}
	for pid := range 20 {
		many[pid+10] = fakeProcess{name: "x", cgroup: "0::/kubepods/pod" + pod + "/" + id, opens: []string{"/dev/gcu0"}}
	}
	for name, tc := range map[string]struct {
		table map[int]fakeProcess
		want  task.DeviceHolders
	}{
		"nobody": {map[int]fakeProcess{1: init}, task.DeviceHolders{Visible: true}},
		"a process, a container and a pod, those outside of pods first": {map[int]fakeProcess{
			1: init,
			7: {name: "train", cgroup: "0::/kubepods/pod" + pod + "/" + id, opens: []string{"/dev/null", "/dev/gcu1"}},
			8: {name: "python3", cgroup: "0::/system.slice/docker-" + id + ".scope", opens: []string{"/dev/gcu2", "/dev/gcu1"}},
			9: {name: "efsmi", opens: []string{"/dev/gcuctl (deleted)"}},
		}, task.DeviceHolders{Visible: true, Processes: []task.DeviceHolder{
			{PID: 8, Command: "python3", UID: 1000, Container: "docker://" + id, Device: "/dev/gcu1"},
			{PID: 9, Command: "efsmi", UID: 1000, Device: "/dev/gcuctl"},
			{PID: 7, Command: "train", UID: 1000, Container: id, PodUID: pod, Device: "/dev/gcu1"},
		}}},
		"a privileged pod, with the devices of the host below another path": {map[int]fakeProcess{
			1: init, 7: {name: "x", cgroup: "0::/kubepods/pod" + pod + "/" + id, opens: []string{"/host/dev/gcu0"}},
		}, task.DeviceHolders{Visible: true, Processes: []task.DeviceHolder{{PID: 7, Command: "x", UID: 1000, Container: id, PodUID: pod, Device: "/dev/gcu0"}}}},
		"files that are named like a card": {map[int]fakeProcess{1: init, 7: {name: "x", files: []string{"/dev/gcu0", "/usr/bin/gcu-exporter"}}},
			task.DeviceHolders{Visible: true}},
		"one that closes it meanwhile": {map[int]fakeProcess{1: init, 7: {name: "x", closes: true, opens: []string{"/dev/gcu0"}}}, task.DeviceHolders{Visible: true}},
		"one that has closed what it has mapped": {map[int]fakeProcess{
			1: init, 7: {name: "x", maps: "7f10d000-7f10d001 rw-s 00010000 00:06 345 /dev/gcu1\n"},
		}, task.DeviceHolders{Visible: true, Processes: []task.DeviceHolder{{PID: 7, Command: "x", UID: 1000, Device: "/dev/gcu1"}}}},
		"one that ends meanwhile": {map[int]fakeProcess{1: init, 7: {opens: []string{"/dev/gcu0"}, gone: true}}, task.DeviceHolders{Visible: true}},
		"one whose cgroup the kernel does not tell is outside of pods": {map[int]fakeProcess{1: init, 7: {name: "x", unreadable: "cgroup", opens: []string{"/dev/gcu0"}}},
			task.DeviceHolders{Visible: true, Processes: []task.DeviceHolder{{PID: 7, Command: "x", UID: 1000, Device: "/dev/gcu0"}}}},
		"one that cannot be looked at hides no other": {map[int]fakeProcess{1: init, 6: {name: "x", unreadable: "maps"}, 7: {name: "x", opens: []string{"/dev/gcu0"}}},
			task.DeviceHolders{Visible: false, Processes: []task.DeviceHolder{{PID: 7, Command: "x", UID: 1000, Device: "/dev/gcu0"}}}},
		"processes of others are not listed": {map[int]fakeProcess{7: {name: "x"}}, task.DeviceHolders{Visible: false}}, // hidepid
	} {
		got, err := fakeProc(t, tc.table).holders()
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, holders (-want +got):\n%s", name, err, diff)
		}
	}
	got, err := fakeProc(t, many).holders()
	if err != nil || len(got.Processes) != task.MaxDeviceHolders || got.More != 5 || got.Processes[0].PID != 99 || got.Processes[1].PID != 10 {
		t.Errorf("of many, %v: %+v", err, got)
	}
	for _, without := range []processes{{proc: t.TempDir() + "/none", dev: t.TempDir()}, {proc: t.TempDir(), dev: t.TempDir() + "/none"}} {
		if got, err := without.holders(); err == nil {
			t.Errorf("of %+v: %+v", without, got)
		}
	}
}

func TestFactsHaveTheHoldersOfDevices(t *testing.T) {
	root := fakeHost(t, map[string]string{"dev/null": ""})
	table := fakeProc(t, map[int]fakeProcess{1: {name: "init"}, 7: {name: "x", opens: []string{"/dev/gcu0"}}})
	if err := os.Symlink(table.proc, filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	facts, err := host{root: root, paths: Paths{}.withDefaults(), reads: &reads{limit: responseTimeout}}.facts(t.Context(), task.Docker)
	if found := facts.Host.Holders; err != nil || found == nil || !found.Visible || len(found.Processes) != 1 || found.Processes[0].PID != 7 {
		t.Errorf("%v, holders %+v", err, found)
	}
}

// holdADevice, as process 1 of its own process namespace, has a process of another user open a device of the host, which is
// gcu0 of $DEVICES, under another path in another mount namespace, as in a container. One of a third user has a file /dev/gcu0
// of its own open. Then it runs its arguments.
const holdADevice = `
mount -t tmpfs none "$DEVICES" && mknod "$DEVICES/gcu0" c 1 7 && mknod "$DEVICES/null" c 1 3 || exit
unshare --mount sh -c 'mount --bind "$DEVICES/gcu0" "$ELSEWHERE" && exec setpriv --reuid=1000 --clear-groups sleep 60 3<"$ELSEWHERE"' &
device=$!
unshare --mount sh -c 'mount -t tmpfs none /dev && : >/dev/gcu0 && exec setpriv --reuid=1001 --clear-groups sleep 60 3</dev/gcu0' &
for i in $(seq 100); do
  [ "$(cat /proc/$device/comm /proc/$!/comm | uniq)" = sleep ] && break
  sleep 0.05
done
"$@"`

func TestAnOpenDeviceIsSeenWithTheCapability(t *testing.T) {
	if os.Getuid() != 0 {
		need.Skip(t, "who has a device open needs root, for processes of other users")
	}
	if err := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "setpriv", "--version").Run(); err != nil {
		need.Skip(t, fmt.Sprintf("who has a device open needs namespaces and setpriv: %v", err))
	}
	for _, tc := range []struct {
		name, capabilities string
		visible            bool
	}{
		{"with it", "-all,+dac_override,+sys_ptrace", true},
		{"not without it, as the node agent runs by default", "-all,+dac_override", false},
		{"nor without any", "-all", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			command := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", holdADevice, "sh",
				"setpriv", "--bounding-set="+tc.capabilities, os.Args[0])
			elsewhere := filepath.Join(t.TempDir(), "card")
			if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			command.Env = append(os.Environ(), printHolders+"=1", "DEVICES="+t.TempDir(), "ELSEWHERE="+elsewhere)
			out, err := command.Output()
			if err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			var got task.DeviceHolders
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			want := task.DeviceHolders{Visible: tc.visible}
			if tc.visible {
				want.Processes = []task.DeviceHolder{{Command: "sleep", UID: 1000, Device: "/dev/gcu0"}}
			}
			ours := cmpopts.IgnoreFields(task.DeviceHolder{}, "PID", "Container", "PodUID") // this machine may be a container
			if diff := cmp.Diff(want, got, ours); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}

// The kernel writes the place of a file in the maps of a process as look does.
func TestAMappedDeviceIsFoundByItsPlace(t *testing.T) {
	fd, err := unix.MemfdCreate("card", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, 1); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(fd, 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	file, err := look(fmt.Sprint("/proc/self/fd/", fd), 0)
	if err := errors.Join(err, unix.Close(fd)); err != nil || file.Character {
		t.Fatalf("%+v, %v", file, err)
	}
	file.Character = true
	mapped := func() string {
		t.Helper()
		maps, err := os.Open("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		device, err := procfs.DevicesOf(map[string]procfs.File{"gcu0": file}).Mapped(maps, nil)
		if err := errors.Join(err, maps.Close()); err != nil {
			t.Fatal(err)
		}
		return device
	}
	if got := mapped(); got != "/dev/gcu0" {
		t.Errorf("%q is mapped, want %+v", got, file)
	}
	if err := unix.Munmap(memory); err != nil {
		t.Fatal(err)
	}
	if got := mapped(); got != "" {
		t.Errorf("then %q", got)
	}
}
