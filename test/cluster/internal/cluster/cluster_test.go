package cluster

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
	"github.com/topsops/gcu-operator/test/cluster/internal/node"
	"github.com/topsops/gcu-operator/test/cluster/internal/process"
)

func TestClaimMakesADirectoryOnceOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "cluster")
	s, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !s.MadeDir {
		t.Error("MadeDir is false for a directory that claim created")
	}
	if _, err := claim(dir); err == nil || !strings.Contains(err.Error(), "testcluster down --dir "+dir) {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	if _, err := Load(dir); err != nil {
		t.Errorf("loading an interrupted claim: %v", err)
	}
}

func TestClaimLeavesFilesOfOthersAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin.kubeconfig")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(dir); err == nil || !strings.Contains(err.Error(), path+" is in the way") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestStateSurvivesSaving(t *testing.T) {
	dir := t.TempDir()
	s, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Server, s.Nodes = "https://127.0.0.1:1", 3
	if err := s.started(process.Record{Command: process.Command{Name: "etcd", Log: "log"}, PID: 7, StartTicks: 8}); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Server != s.Server || got.Nodes != 3 || len(got.Processes) != 1 || !reflect.DeepEqual(got.Processes, s.Processes) || !got.CreatedAt.Equal(s.CreatedAt) {
		t.Errorf("got %+v, want %+v", got, s)
	}
}

func TestDownRemovesOnlyTheClustersFiles(t *testing.T) {
	for name, keepLogs := range map[string]bool{"without logs": false, "with logs kept": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := claim(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"data/etcd/db", "logs/etcd.log", "admin.kubeconfig", "mine.txt"} {
				full := filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(full, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Down(keepLogs); err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]bool{"data": false, "admin.kubeconfig": false, stateFile: false, "logs": keepLogs, "mine.txt": true} {
				if got := exists(filepath.Join(dir, path)); got != want {
					t.Errorf("%s is there: %v, want %v", path, got, want)
				}
			}
		})
	}
}

func TestSaveDoesNotBringBackAClusterThatWasTakenDown(t *testing.T) {
	dir := t.TempDir()
	s, err := claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Down(false); err != nil {
		t.Fatal(err)
	}
	if err := s.save(); err == nil || exists(filepath.Join(dir, stateFile)) {
		t.Errorf("got %v, want an error and no state file", err)
	}
}

func TestLoadReportsWhyThereIsNoCluster(t *testing.T) {
	empty := t.TempDir()
	for name, test := range map[string]struct{ dir, want string }{
		"no directory":       {filepath.Join(empty, "nope"), "does not exist"},
		"no state file":      {empty, "has no file " + stateFile},
		"a file, no cluster": {"/dev/null", "reading the cluster's state"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(test.dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestOptionsAreValidated(t *testing.T) {
	good := Options{Dir: "d", NodeMonitorGracePeriod: 16 * time.Second, ControllerManagerQPS: 1, ControllerManagerBurst: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Options){
		"--dir is required":                    func(o *Options) { o.Dir = "" },
		"--nodes must be":                      func(o *Options) { o.Nodes = node.Spec{Count: -1} },
		"must not be negative":                 func(o *Options) { o.Timing = kwok.Timing{PodReadyDelay: -1} },
		"--node-monitor-grace-period":          func(o *Options) { o.NodeMonitorGracePeriod = time.Second },
		"--kube-controller-manager-qps and --": func(o *Options) { o.ControllerManagerQPS = 0 },
	} {
		o := good
		spoil(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
