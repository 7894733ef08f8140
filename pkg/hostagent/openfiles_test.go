package hostagent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/topsops/gcu-operator/pkg/hostagent/procfs"
	"github.com/topsops/gcu-operator/test/need"
)

func TestTheLastOfManyOpenFilesIsSeen(t *testing.T) {
	directory, elsewhere := t.TempDir(), t.TempDir()
	for fd := range namesAtATime + 1 {
		name := strconv.Itoa(fd)
		if err := os.Symlink(filepath.Join(elsewhere, name, "gcu0"), filepath.Join(directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	fds, err := os.Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer fds.Close()
	names, err := fds.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(elsewhere, names[len(names)-1])
	if err := errors.Join(os.Mkdir(last, 0o700), os.Symlink("/dev/full", filepath.Join(last, "gcu0"))); err != nil {
		t.Fatal(err)
	}
	if _, err := fds.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if device, err := firstOpened(fds, procfs.DevicesOf(nil)); device != "/dev/gcu0" || err != nil {
		t.Errorf("%q, %v is open", device, err)
	}
}

// The kernel does not tell a path of more than 4095 bytes, which any pod may make.
func TestAFileWithALongPathHidesNoHolder(t *testing.T) {
	at := deepDirectory(t)
	file, err := at.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if device := openedUntold(t, file, procfs.DevicesOf(nil)); device != "" {
		t.Errorf("it is %q", device)
	}
}

func TestADeviceWithALongPathIsSeen(t *testing.T) {
	if os.Getuid() != 0 {
		need.Skip(t, "a device that is open under a long path needs root, to make it")
	}
	at := deepDirectory(t)
	directory, err := at.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	const full = 7
	err = unix.Mknodat(int(directory.Fd()), "card", unix.S_IFCHR|0o600, int(unix.Mkdev(1, full)))
	if err := errors.Join(err, directory.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := at.Open("card")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if device := openedUntold(t, file, procfs.DevicesOf(map[string]procfs.File{"gcu0": {Character: true, Number: unix.Mkdev(1, full)}})); device != "/dev/gcu0" {
		t.Errorf("it is %q", device)
	}
}

// deepDirectory returns one with a path of more than 4095 bytes.
func deepDirectory(t *testing.T) *os.Root {
	t.Helper()
	at, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		name := strings.Repeat("x", 250)
		if err := at.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := at.OpenRoot(name)
		if err := errors.Join(err, at.Close()); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	t.Cleanup(func() {
		if err := at.Close(); err != nil {
			t.Error(err)
		}
	})
	return at
}

// openedUntold is opened for a file whose link the kernel does not tell.
func openedUntold(t *testing.T, file *os.File, devices procfs.Devices) string {
	t.Helper()
	fd := fmt.Sprint("/proc/self/fd/", file.Fd())
	if _, err := os.Readlink(fd); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Fatalf("its link: %v", err)
	}
	device, err := opened(fd, devices)
	if err != nil {
		t.Error(err)
	}
	return device
}

func TestAMappedFileThatIsNamedLikeACardIsNoDevice(t *testing.T) {
	process := fakeHost(t, map[string]string{"root/dev/gcu1": "", "root/dev/else": "", "fd/none": ""})
	if err := os.Remove(filepath.Join(process, "fd/none")); err != nil {
		t.Fatal(err)
	}
	if _, err := lookBelow(filepath.Join(process, "root"), "/dev/gcu1"); err != nil {
		need.Skip(t, fmt.Sprintf("what is mapped needs openat2 of Linux 5.12: %v", err))
	}
	for mapped, want := range map[string]string{"gcu1": "", "else": "/dev/gcu1"} {
		file, err := look(filepath.Join(process, "root/dev", mapped), 0)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("7f10d000-7f10d001 rw-s 00010000 %02x:%02x %d /dev/gcu1\n", file.Major, file.Minor, file.Inode)
		if err := os.WriteFile(filepath.Join(process, "maps"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		if device, err := deviceOf(process, procfs.DevicesOf(nil)); device != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", line, device, err, want)
		}
	}
}

// A FUSE program may refuse root, too: its file is none of the devices, and hides no process.
func TestAFileThatMayNotBeLookedAtIsNoDevice(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "fd")
	if err := os.Mkdir(filepath.Join(dir, "mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "mine", "file"), link); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, filepath.Join(dir, "mine"): 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := os.Chmod(filepath.Join(dir, "mine"), 0o700); err != nil {
			t.Error(err)
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
		}
		if _, err := look(link, 0); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("looking at it: %v", err)
		}
		if device, err := opened(link, procfs.DevicesOf(nil)); device != "" || err != nil {
			t.Errorf("it is %q, %v", device, err)
		}
	}()
	<-done
}

// The kernel shows what such a process has open with its other threads.
func TestWhatAProcessWhoseMainThreadHasEndedHasOpenIsSeen(t *testing.T) {
	device, err := os.Open("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	number, err := look("/dev/full", 0)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/proc/self/exe")
	child.Env, child.ExtraFiles = []string{endMainThread + "=1"}, []*os.File{device}
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid, devices := child.Process.Pid, procfs.DevicesOf(map[string]procfs.File{"gcu0": number})
	await := func(what string, done func() bool) {
		t.Helper()
		for range 1000 {
			if done() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%s after 10 s", what)
	}
	await("the main thread runs", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err == nil && procfs.Ended(string(status))
	})
	holder, err := processes{proc: "/proc"}.holder(pid, devices)
	if err != nil || holder == nil || holder.Device != "/dev/gcu0" || holder.PID != pid {
		t.Errorf("while it runs: %+v, %v", holder, err)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	await("it has not ended", func() bool {
		holder, err = processes{proc: "/proc"}.holder(pid, devices)
		return holder == nil && err == nil
	})
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

func TestWhatTheThreadsOfAProcessHaveOpenIsSeen(t *testing.T) {
	number, err := look("/dev/full", 0)
	if err != nil {
		t.Fatal(err)
	}
	const ended, sleeps = "Name:\tx\nState:\tZ (zombie)\nUid:\t1000\t1000\n", "Name:\tx\nState:\tS (sleeping)\nUid:\t1000\t1000\n"
	over := map[string]string{"status": ended + "Threads:\t1\n", "maps": "", "fd/0": "/dev/null"}
	hasOthers := map[string]string{"status": ended + "Threads:\t2\n", "maps": "", "fd/0": "/dev/null"}
	has := map[string]string{"status": sleeps, "cgroup": "", "fd/0": "/dev/full"}
	for name, test := range map[string]struct {
		main          map[string]string
		threads       []map[string]string
		found, failed bool
	}{
		"a thread after one that has ended":             {hasOthers, []map[string]string{over, has}, true, false},
		"one after one that ends while it is looked at": {hasOthers, []map[string]string{{"status": sleeps}, has}, true, false},
		"one after one that is gone":                    {hasOthers, []map[string]string{{"comm": "x"}, has}, true, false},
		"all have ended":                                {over, []map[string]string{over}, false, false},
		"one that lives shows all":                      {hasOthers, []map[string]string{{"status": sleeps, "maps": "", "fd/0": "/dev/null"}, has}, false, false},
		"one cannot be looked at":                       {hasOthers, []map[string]string{{"status": sleeps, "maps/x": "", "fd/0": "/dev/null"}}, false, true},
		"the list lacks one":                            {hasOthers, []map[string]string{over}, false, true},
		"they end as fast as they are listed":           {hasOthers, []map[string]string{{"comm": "x"}}, false, true},
	} {
		files := map[string]string{}
		for n, thread := range append(test.threads, test.main) {
			directory := fmt.Sprintf("7/task/%d/", n)
			if n == len(test.threads) {
				directory = "7/"
			}
			for file, content := range thread {
				files[directory+file] = content
			}
		}
		root := fakeHost(t, files)
		for file, content := range files {
			if !strings.HasPrefix(content, "/dev/") {
				continue
			}
			if err := errors.Join(os.Remove(filepath.Join(root, file)), os.Symlink(content, filepath.Join(root, file))); err != nil {
				t.Fatal(err)
			}
		}
		holder, err := processes{proc: root}.holder(7, procfs.DevicesOf(map[string]procfs.File{"gcu0": number}))
		if found := holder != nil && holder.PID == 7 && holder.Device == "/dev/gcu0"; found != test.found || (err != nil) != test.failed {
			t.Errorf("%s: %+v, %v", name, holder, err)
		}
	}
}
