package ota

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/journal"
	"github.com/topsops/gcu-operator/pkg/ota/records"
	"github.com/topsops/gcu-operator/pkg/ota/request"
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

// TestTheFirstAgentOfANodeWhoseDiskIsReadOnly has no journals, and does not take the disk for the API server.
func TestTheFirstAgentOfANodeWhoseDiskIsReadOnly(t *testing.T) {
	directory := smallDisk(t)
	remount(t, directory, syscall.MS_RDONLY)
	c := newFleet()
	b := newBench(t, c, filepath.Join(directory, "state"))
	for _, path := range []string{"/v1/upgrade", "/v1/hold", "/v1/rollback", "/openyurt.io/v1/namespaces/kube-system/pods/enflame-driver-x/upgrade"} {
		if a := call(t, b.handler(), "POST", path, "").wants(500); !strings.Contains(string(a.body), "read-only file system") || strings.Contains(string(a.body), "API server") {
			t.Errorf("%s is answered with %s", path, a.body)
		}
	}
	call(t, b.handler(), "GET", "/v1/status", "").wants(200)
	call(t, b.handler(), "GET", "/pods", "").wants(200)
	if err := b.syncOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("a pass that can record nothing ends with %v", err)
	}
	remount(t, directory, 0)
	b.sync(t)
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202)
	want := c.submitted()
	restarted := newBench(t, c, b.directory)
	restarted.sync(t)
	if diff := cmp.Diff(want, c.submitted()); diff != "" || len(want) != 2 {
		t.Errorf("status.requests of the next agent (-want +got):\n%s", diff)
	}
}

// TestADiskThatBecomesReadOnlyIsNotTakenForTheAPIServer, also when it cannot take what was requested before.
func TestADiskThatBecomesReadOnlyIsNotTakenForTheAPIServer(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, b *bench){
		"an operation is queued": func(*testing.T, *bench) {},
		"its withdrawal was interrupted": func(t *testing.T, b *bench) {
			o := b.loop.journals.Operations.List[0]
			o.Withdrawn = true
			if err := b.loop.journals.Operations.Put(o); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			directory := smallDisk(t)
			c := newFleet()
			b := newBench(t, c, filepath.Join(directory, "state"))
			b.sync(t)
			c.set(func() { c.unreachable = errUnreachable })
			call(t, b.handler(), "POST", "/v1/components/driver/upgrade", "").wants(202)
			before(t, b)
			remount(t, directory, syscall.MS_RDONLY)
			c.set(func() { c.unreachable = nil })
			path := "/openyurt.io/v1/namespaces/kube-system/pods/enflame-toolkit-x/upgrade"
			a := call(t, b.handler(), "POST", path, "").wants(500)
			if said := string(a.body); !strings.Contains(said, "read-only file system") || strings.Contains(said, "API server") {
				t.Errorf("the request is answered with %s", said)
			}
			remount(t, directory, 0)
			call(t, b.handler(), "POST", path, "").wants(200)
		})
	}
}

// put writes a value to a journal, as an agent does whose change then fails because the directory cannot be synced.
func put[T any](t *testing.T, b *bench, name string, kind journal.Kind[T], value T) {
	t.Helper()
	j, _, err := journal.Open(filepath.Join(b.directory, name), kind, testr.New(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Put(value); err != nil {
		t.Fatal(err)
	}
}

// TestWhatWasNotDoneIsNotDoneByTheNextAgent: a change that fails may be on the disk. The caller was told that nothing was done.
func TestWhatWasNotDoneIsNotDoneByTheNextAgent(t *testing.T) {
	for _, tt := range []struct {
		name, journal, before, path string
		kept                        func(t *testing.T, b *bench, refusal string)
	}{
		{"an operation", "operations", "", "/v1/upgrade", func(t *testing.T, b *bench, refusal string) {
			now := metav1.Unix(1700000000, 0).Rfc3339Copy()
			put(t, b, "operations", records.OperationKind, request.Operation{
				Sequence: 1, ID: regexp.MustCompile("op-[0-9a-f]+").FindString(refusal), Accepted: now, Queued: true, Wanted: request.Wanted{Latest: true}})
		}},
		{"a hold", "hold", "/v1/release", "/v1/hold", func(t *testing.T, b *bench, _ string) {
			put(t, b, "hold", records.HoldKind, records.HoldRecord{Hold: &topsv1.NodeHold{Since: metav1.Unix(1700000000, 0)}})
		}},
		{"a release", "hold", "/v1/hold", "/v1/release", func(t *testing.T, b *bench, _ string) { put(t, b, "hold", records.HoldKind, records.HoldRecord{}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFleet()
			b := newBench(t, c, t.TempDir())
			h := b.handler()
			b.sync(t)
			if tt.before != "" {
				call(t, h, "POST", tt.before, "").wants(200)
			}
			held := c.shownHold() != nil
			path := filepath.Join(b.directory, tt.journal)
			if err := os.Rename(path, path+"-away"); err != nil {
				t.Fatal(err)
			}
			refusal := call(t, h, "POST", tt.path, "").wants(500)
			if err := os.Rename(path+"-away", path); err != nil {
				t.Fatal(err)
			}
			tt.kept(t, b, string(refusal.body))
			c.set(func() { c.unreachable = errUnreachable })
			_ = b.syncOnce(t.Context()) // without a connection, too
			c.set(func() { c.unreachable = nil })
			restarted := newBench(t, c, b.directory)
			restarted.sync(t)
			if submitted := c.submitted(); len(submitted) != 0 || (c.shownHold() != nil) != held {
				t.Errorf("what was refused is done by the next agent: requests %v, hold %v", submitted, c.shownHold())
			}
		})
	}
}
