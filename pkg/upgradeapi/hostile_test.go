package upgradeapi

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestContractBlueprintNames(t *testing.T) {
	d := newDesk(t)
	d.create("safe")
	outside := filepath.Join(t.TempDir(), "outside.json")
	d.must(os.WriteFile(outside, []byte(blueprint("safe", "6.6.6")), 0o644))
	d.must(os.WriteFile(filepath.Join(filepath.Dir(d.blueprints), "above.json"), []byte(blueprint("safe", "6.6.6")), 0o644))
	path := func(name string) string { return filepath.Join(d.blueprints, name) }
	d.must(os.Mkdir(path("folder"), 0o755))
	d.must(os.WriteFile(path("folder/inner.json"), []byte(blueprint("safe", "6.6.6")), 0o644))
	d.must(os.Symlink(outside, path("link.json")))
	d.must(os.Symlink("../above.json", path("up.json")))
	d.must(os.Symlink("/dev/zero", path("zero")))
	d.must(os.Symlink("loop", path("loop")))
	d.must(os.Symlink("folder", path("linked")))
	d.must(syscall.Mkfifo(path("pipe"), 0o644))
	listener, err := net.Listen("unix", path("socket"))
	d.must(err)
	defer listener.Close()
	if os.Getuid() == 0 { // a device of its own needs root; zero above is one all the same
		d.must(syscall.Mknod(path("device"), syscall.S_IFCHR|0o644, 1<<8|5))
	}

	t.Run("contract 80: file is a plain name", func(t *testing.T) {
		for _, name := range []string{"../above.json", "./gr.json", "folder/inner.json", outside, "..", ".", "/", ".hidden", "a\x00b", `folder\inner.json`, "gr.json ", "%2e%2e", "~root",
			strings.Repeat("a", 254)} {
			d.fails(http.MethodPut, "/gum/v1/gr/safe", fmt.Sprintf(`{"file": %s}`, quoted(name)), http.StatusBadRequest, "")
		}
	})
	t.Run("contract 80: no link leads out of the directory, and only a regular file is read", func(t *testing.T) {
		for _, name := range []string{"link.json", "up.json", "zero", "loop", "folder", "linked", "pipe", "socket", "device"} {
			if name == "device" && os.Getuid() != 0 {
				continue
			}
			d.fails(http.MethodPut, "/gum/v1/gr/safe", fmt.Sprintf(`{"file": %q}`, name), http.StatusBadRequest, "blueprint "+name)
		}
	})
	if now := d.gr("safe"); now.Spec.Driver.Version != "1.0.0" {
		t.Fatalf("it was upgraded to %s", now.Spec.Driver.Version)
	}
	t.Run("contract 80: a link within the directory is followed, as kubelet makes them of a ConfigMap", func(t *testing.T) {
		d.must(os.Mkdir(path("..2026"), 0o755))
		d.must(os.WriteFile(path("..2026/gr.json"), []byte(blueprint("safe", "2")), 0o644))
		d.must(os.Symlink("..2026", path("..data")))
		d.must(os.Symlink("..data/gr.json", path("gr.json")))
		d.succeeds(http.MethodPut, "/gum/v1/gr/safe", `{"file": "gr.json"}`)
	})
}

// quoted is a JSON string.
func quoted(text string) string {
	return strings.ReplaceAll(fmt.Sprintf("%q", text), `\x00`, `\u0000`)
}

func TestABlueprintOfKubectlIsNoOtherGr(t *testing.T) {
	d := newDesk(t)
	d.create("exported")
	d.file("exported.json", `{"apiVersion": "topsops.enflame.com/v1", "kind": "GcuResource", "spec": {"driver": {"version": "2"}}, "status": {"phase": "Running"},
		"metadata": {"name": "exported", "uid": "1", "resourceVersion": "1", "generation": 7, "creationTimestamp": "2022-10-19T08:28:29Z", "finalizers": ["a/b"],
		"labels": {"site": "b"}, "annotations": {"topsops.enflame.com/rollback-to": "x", "topsops.enflame.com/max-unavailable": "3", "note": "y"}}}`)
	d.succeeds(http.MethodPut, "/gum/v1/gr/exported", `{"file": "exported.json"}`)
	now := d.gr("exported")
	want := map[string]string{topsv1.AnnotationMaxUnavailable: "3", topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}
	if now.Finalizers[0] != topsv1.Finalizer || now.Labels != nil || fmt.Sprint(now.Annotations) != fmt.Sprint(want) {
		t.Errorf("in place: %+v", now.ObjectMeta)
	}
	got := d.succeeds(http.MethodPut, "/gum/v1/gr/exported?dryRun=true", `{"file": "exported.json", "mode": "recreate"}`).object(t)
	if got.GetUID() != "" || got.GetFinalizers() != nil || got.GetLabels()["site"] != "b" || got.GetAnnotations()["note"] != "y" || got.GetAnnotations()[topsv1.AnnotationRollbackTo] != "" {
		t.Errorf("recreated: %+v", got)
	}
}

func TestEachCallerIsBounded(t *testing.T) {
	clk := testingclock.NewFakePassiveClock(time.Now())
	l := newLimits(Rates{Reads: 10, Writes: 1}, clk)
	take := func(caller string, reads bool) (n int) {
		for l.allow(caller, reads) {
			n++
		}
		return n
	}
	for _, tt := range []struct {
		caller string
		reads  bool
		want   int
	}{{"a", true, 20}, {"a", false, 2}, {"b", true, 20}} {
		if n := take(tt.caller, tt.reads); n != tt.want {
			t.Errorf("caller %s (reads: %t) is let through %d times, want %d", tt.caller, tt.reads, n, tt.want)
		}
	}
	clk.SetTime(clk.Now().Add(time.Second))
	if n := take("a", true); n != 10 {
		t.Errorf("a second later %d, want 10", n)
	}
	for i := range 3 * callers {
		l.allow(fmt.Sprint("c", i), true)
	}
	if n := len(l.known.Keys()); n > callers {
		t.Errorf("%d callers are remembered", n)
	}
}

func TestTooManyRequestsAreAnswered(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.Rates = Rates{Reads: 1e-9, Writes: 1e-9} })
	d.succeeds(http.MethodGet, "/gum/v1/gr", "")
	for _, path := range []string{"/gum/v1/gr", "/nowhere", "/gum/v1/openapi.yaml"} {
		if got := d.fails(http.MethodGet, path, "", http.StatusTooManyRequests, "too many requests"); got.header.Get("Retry-After") != "1" {
			t.Errorf("got %v", got.header)
		}
	}
}
