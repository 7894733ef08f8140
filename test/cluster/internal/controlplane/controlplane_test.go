package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/topsops/gcu-operator/test/cluster/internal/process"
)

func TestLeasesAreRenewedWithinTheGracePeriod(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		50 * time.Second: 40 * time.Second,
		16 * time.Second: 40 * time.Second,
		8 * time.Second:  20 * time.Second,
		4 * time.Second:  10 * time.Second,
	} {
		got := LeaseDuration(grace)
		if got != want {
			t.Errorf("grace %s: got lease %s, want %s", grace, got, want)
		}
		if renewal := got / 4; renewal >= grace {
			t.Errorf("grace %s: renewing after %s is too late", grace, renewal)
		}
	}
}

func TestFreePortsDiffer(t *testing.T) {
	p, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range []int{p.etcdClient, p.etcdPeer, p.apiServer, p.controllerManager, p.scheduler, p.kwok} {
		if port == 0 || seen[port] {
			t.Errorf("port %d is a duplicate or 0: %+v", port, p)
		}
		seen[port] = true
	}
}

func TestKubeconfigIsReadableOnlyByItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := WriteKubeconfig(path, "https://127.0.0.1:1", []byte("ca"), "me", "secret"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v; want 0600", info.Mode(), err)
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if config.AuthInfos["me"].Token != "secret" || config.Clusters["testcluster"].Server != "https://127.0.0.1:1" || config.CurrentContext != "testcluster" {
		t.Errorf("got %+v", config)
	}
}

// plane returns a control plane in which every program is the given shell script.
func plane(t *testing.T, script string) *ControlPlane {
	t.Helper()
	layout := Layout{Dir: t.TempDir()}
	if err := Prepare(layout); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(layout.Dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{
		Layout:  layout,
		Binary:  func(string) string { return program },
		Started: func(process.Record) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStartDistinguishesATakenPortFromOtherFailures(t *testing.T) {
	err := plane(t, "echo listen tcp 127.0.0.1:1: bind: address already in use; exit 1").StartAPI(t.Context())
	if !errors.Is(err, ErrPortTaken) {
		t.Errorf("got %v, want ErrPortTaken", err)
	}
	err = plane(t, "echo unknown flag; exit 2").StartAPI(t.Context())
	part, ok := errors.AsType[*PartError](err)
	if !ok || errors.Is(err, ErrPortTaken) || part.Name != etcd || part.LogTail(1) != "unknown flag" {
		t.Errorf("got %v, want the failure of etcd with its log", err)
	}
}

func TestPartErrorShowsTheEndOfTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "part.log")
	if err := os.WriteFile(log, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &PartError{Name: "etcd", Log: log, err: os.ErrClosed}
	if got := e.LogTail(2); got != "two\nthree" {
		t.Errorf("got %q, want the last two lines", got)
	}
	if got, want := e.Error(), "etcd "+os.ErrClosed.Error()+"; read "+log; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
