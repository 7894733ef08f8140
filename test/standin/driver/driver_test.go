package driver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage returns a driver for a node without a driver and processes.
func stage(t *testing.T, version string, b Behavior) Driver {
	t.Helper()
	root := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(root, "dev"), 0o755))
	return Driver{
		Node: gcu.Node{Root: root}, Host: root, Processes: filepath.Join(root, "proc"), Version: version, Behavior: b, Cards: 2,
		MakeCard:   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		CutNetwork: func() error { return nil },
	}
}

// start runs the driver until stop is called or the test ends.
func start(t *testing.T, d Driver) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestADriverIsLoadedAndStays(t *testing.T) {
	d := stage(t, "1.0.0", "")
	stop := start(t, d)
	waitFor(t, "the version", func() bool { return d.Node.Version() == "1.0.0" })
	check(t, stop())
	if d.Node.Version() != "1.0.0" || len(d.Node.Cards()) != 2 {
		t.Errorf("after its end: version %q, cards %v", d.Node.Version(), d.Node.Cards())
	}
	link, err := os.Readlink(filepath.Join(d.Host, "usr/lib/libefml.so"))
	check(t, err)
	if _, err := os.Stat(filepath.Join(d.Host, link)); err != nil {
		t.Error(err)
	}

	d.Version, d.Cards = "2.0.0", 1
	stop = start(t, d)
	waitFor(t, "the next version", func() bool { return d.Node.Version() == "2.0.0" })
	check(t, stop())
	if len(d.Node.Cards()) != 1 {
		t.Errorf("the next version shows %v", d.Node.Cards())
	}
	atBoot, err := os.ReadFile(d.bootFile())
	check(t, err)
	if text := string(atBoot); !strings.Contains(text, "echo 2.0.0 >/sys/module/enflame/version") || strings.Count(text, "mknod") != 1 {
		t.Errorf("at boot the node runs %s", text)
	}
}

func TestADriverInUseIsNotUnloaded(t *testing.T) {
	d := stage(t, "1.0.0", "")
	stop := start(t, d)
	waitFor(t, "the version", func() bool { return d.Node.Version() == "1.0.0" })
	check(t, stop())
	process := filepath.Join(d.Processes, "42")
	check(t, os.MkdirAll(filepath.Join(process, "fd"), 0o755))
	check(t, os.WriteFile(filepath.Join(process, "comm"), []byte("python\n"), 0o600))
	check(t, os.Symlink("/dev/gcu1", filepath.Join(process, "fd", "3")))
	check(t, os.Symlink("/dev/null", filepath.Join(process, "fd", "4")))

	check(t, start(t, d)()) // the same version is not unloaded
	d.Version = "2.0.0"
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "in use by: python (42)") {
		t.Errorf("the next version says: %v", err)
	}
	if d.Node.Version() != "1.0.0" || len(d.Node.Cards()) != 2 {
		t.Errorf("version %q, cards %v", d.Node.Version(), d.Node.Cards())
	}
}

func TestABadVersionUnloadsTheGoodOne(t *testing.T) {
	good := stage(t, "1.0.0", "")
	stop := start(t, good)
	waitFor(t, "the version", func() bool { return good.Node.Version() == "1.0.0" })
	check(t, stop())
	bad := good
	bad.Version, bad.Behavior = "2.0.0", Fail
	if err := bad.Run(t.Context()); err == nil {
		t.Error("it does not fail")
	}
	if good.Node.Version() != "" || len(good.Node.Cards()) != 0 {
		t.Errorf("version %q, cards %v", good.Node.Version(), good.Node.Cards())
	}
	if _, err := os.Stat(good.bootFile()); !os.IsNotExist(err) {
		t.Errorf("the good one is loaded at boot: %v", err)
	}
	bad.Behavior = NeverReady
	check(t, start(t, bad)())
	if good.Node.Version() != "" {
		t.Errorf("version %q", good.Node.Version())
	}
	bad.Behavior = "typo"
	if err := bad.Run(t.Context()); err == nil {
		t.Error("an unknown behavior is accepted")
	}
}

func TestTheNetworkIsCutOnceTheVersionIsLoaded(t *testing.T) {
	d := stage(t, "2.0.0", CutNetwork)
	cut := make(chan string, 1)
	d.CutNetwork = func() error {
		cut <- d.Node.Version()
		return nil
	}
	stop := start(t, d)
	if version := <-cut; version != "2.0.0" {
		t.Errorf("the network was cut with version %q", version)
	}
	check(t, stop())
}
