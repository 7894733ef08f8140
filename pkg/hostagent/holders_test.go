package hostagent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/test/need"
)

// fakeProcess is a process below /proc.
type fakeProcess struct {
	name, cgroup, maps string
	opens              []string
	// gone: it ends while it is looked at.
	gone bool
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
	}
	root := fakeHost(t, files)
	for pid, p := range table {
		fds := filepath.Join(root, strconv.Itoa(pid), "fd")
		if err := os.Remove(filepath.Join(fds, "keep")); err != nil {
			t.Fatal(err)
		}
		for fd, target := range p.opens {
			if err := os.Symlink(target, filepath.Join(fds, strconv.Itoa(fd))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return processes{proc: root}
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
		"one that has closed what it has mapped": {map[int]fakeProcess{
			1: init, 7: {name: "x", maps: "7f10d000-7f10d001 rw-s 00010000 00:06 345 /dev/gcu1\n"},
		}, task.DeviceHolders{Visible: true, Processes: []task.DeviceHolder{{PID: 7, Command: "x", UID: 1000, Device: "/dev/gcu1"}}}},
		"one that ends meanwhile":            {map[int]fakeProcess{1: init, 7: {opens: []string{"/dev/gcu0"}, gone: true}}, task.DeviceHolders{Visible: true}},
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
	if got, err := (processes{proc: t.TempDir() + "/none"}).holders(); err == nil {
		t.Errorf("without /proc: %+v", got)
	}
}

func TestFactsHaveTheHoldersOfDevices(t *testing.T) {
	root := t.TempDir()
	table := fakeProc(t, map[int]fakeProcess{1: {name: "init"}, 7: {name: "x", opens: []string{"/dev/gcu0"}}})
	if err := os.Symlink(table.proc, filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	facts, err := host{root: root, paths: Paths{}.withDefaults(), reads: &reads{limit: responseTimeout}}.facts(t.Context(), task.Docker)
	if found := facts.Host.Holders; err != nil || found == nil || !found.Visible || len(found.Processes) != 1 || found.Processes[0].PID != 7 {
		t.Errorf("%v, holders %+v", err, found)
	}
}

// holdADevice, as process 1 of its own process namespace, has a process of another user open a
// file /dev/gcu0 in another mount namespace, as in a container. Then it runs its arguments.
const holdADevice = `
unshare --mount sh -c 'mount -t tmpfs none /dev && : >/dev/gcu0 && exec setpriv --reuid=1000 --clear-groups sleep 60 3</dev/gcu0' &
for i in $(seq 100); do
  [ "$(cat /proc/$!/comm)" = sleep ] && break
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
			command.Env = append(os.Environ(), printHolders+"=1")
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
