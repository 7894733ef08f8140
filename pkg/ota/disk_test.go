package ota

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/test/need"
)

// smallDisk mounts a tiny file system.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "a disk that is full needs root, to mount one")
	}
	directory := t.TempDir()
	if err := syscall.Mount("tmpfs", directory, "tmpfs", 0, "size=128k"); err != nil {
		need.Skip(t, fmt.Sprintf("a disk that is full needs a file system, which cannot be mounted here: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(directory, 0); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return directory
}

// fill uses up the space of a disk; free releases it.
func fill(t *testing.T, directory string) (free func()) {
	t.Helper()
	path := filepath.Join(directory, "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("filling the disk: %v", err)
	}
	_ = file.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskRefusesNewWork(t *testing.T) {
	directory := smallDisk(t)
	c := newFleet()
	b := newBench(t, c, filepath.Join(directory, "state"))
	h := b.handler()
	b.sync(t)
	free := fill(t, directory)
	for path, body := range map[string]string{
		"/v1/upgrade": "", "/v1/hold": `{"message":"surgery"}`,
		"/openyurt.io/v1/namespaces/kube-system/pods/enflame-driver-x/upgrade": "",
	} {
		a := call(t, h, "POST", path, body).wants(500)
		if !strings.Contains(string(a.body), "no space left on device") || !strings.Contains(string(a.body), "ake room") {
			t.Errorf("%s is refused with %s", path, a.body)
		}
	}
	if submitted := c.submitted(); len(submitted) != 0 || c.shownHold() != nil {
		t.Errorf("what was refused is submitted: %v, %v", submitted, c.shownHold())
	}
	call(t, h, "GET", "/v1/status", "").wants(200)
	call(t, h, "GET", "/pods", "").wants(200)
	b.sync(t) // works without a disk, and requests nothing
	if submitted := c.submitted(); len(submitted) != 0 {
		t.Errorf("what was refused is submitted later: %v", submitted)
	}
	free()
	call(t, h, "POST", "/v1/upgrade", "").wants(202)
	if files := b.journaled(t); len(files) != 2 {
		t.Errorf("the journal holds %v", files)
	}
}

func TestAnAgentStartsOnADiskThatIsFull(t *testing.T) {
	directory := smallDisk(t)
	c := newFleet()
	b := newBench(t, c, filepath.Join(directory, "state"))
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202)
	fill(t, directory)
	restarted := newBench(t, c, filepath.Join(directory, "state"))
	restarted.sync(t)
	if submitted := c.submitted(); len(submitted) != 2 {
		t.Errorf("requests %v", submitted)
	}
}

// remount makes a disk of smallDisk read-only, or writable again.
func remount(t *testing.T, directory string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("tmpfs", directory, "tmpfs", syscall.MS_REMOUNT|flags, "size=128k"); err != nil {
		t.Fatal(err)
	}
}

// TestAnAgentStartsOnADiskThatIsReadOnly, as the kernel makes it after an error of the disk: what was recorded goes on, what is new is
// refused until it can be recorded.
func TestAnAgentStartsOnADiskThatIsReadOnly(t *testing.T) {
	for name, damage := range map[string]func(b *bench, t *testing.T){
		"nothing is damaged": func(*bench, *testing.T) {},
		"a file is torn":     (*bench).tearRequests,
		"a file is unfinished": func(b *bench, t *testing.T) {
			if err := os.WriteFile(filepath.Join(b.directory, "requests", ".new-1"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			directory := smallDisk(t)
			c := newFleet()
			b := newBench(t, c, filepath.Join(directory, "state"))
			call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202)
			want := c.submitted()
			damage(b, t)
			remount(t, directory, syscall.MS_RDONLY)
			restarted := newBench(t, c, b.directory)
			call(t, restarted.handler(), "GET", "/v1/status", "").wants(200)
			call(t, restarted.handler(), "GET", "/pods", "").wants(200)
			if a := call(t, restarted.handler(), "POST", "/v1/hold", "").wants(500); !strings.Contains(string(a.body), "read-only file system") {
				t.Errorf("a hold is answered with %s", a.body)
			}
			_ = restarted.syncOnce(t.Context()) // says what it cannot take over
			remount(t, directory, 0)
			restarted.sync(t)
			if diff := cmp.Diff(want, c.submitted()); diff != "" {
				t.Errorf("status.requests (-want +got):\n%s", diff)
			}
			call(t, restarted.handler(), "POST", "/v1/hold", "").wants(200)
		})
	}
}
