// Package cluster starts a whole test cluster in a directory, reports its state and
// removes it.
//
// A directory contains a cluster if it has a state file. The file is created first,
// exclusively, and removed last: it claims the directory and always lists every process
// that was started, so that a cluster can be removed even if the program that started
// it was killed.
package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/topsops/gcu-operator/test/cluster/internal/controlplane"
	"github.com/topsops/gcu-operator/test/cluster/internal/process"
	"github.com/topsops/gcu-operator/test/cluster/internal/realnode"
)

// stateFile is the name of the state file in a cluster's directory.
const stateFile = "testcluster.json"

// State is the stored state of a cluster.
type State struct {
	// CreatedAt is when it was started.
	CreatedAt time.Time `json:"createdAt"`
	// Ready is whether it started completely.
	Ready bool `json:"ready"`
	// MadeDir is whether the directory was created for it.
	MadeDir bool `json:"madeDir"`
	// KubernetesVersion is the version of the control plane.
	KubernetesVersion string `json:"kubernetesVersion"`
	// Assets is the folder of its programs.
	Assets string `json:"assets"`
	// Server is the API server's URL, empty before it is known.
	Server string `json:"server,omitempty"`
	// Nodes is the number of simulated nodes it was started with.
	Nodes int `json:"nodes"`
	// Real are the real nodes; nil if there are none. It is stored before anything is
	// created for them.
	Real *realnode.Nodes `json:"real,omitempty"`
	// Processes are all processes that were started, in start order.
	Processes []process.Record `json:"processes,omitempty"`

	layout controlplane.Layout
}

// ErrNoDir means that no directory was given.
var ErrNoDir = errors.New("--dir is required")

// Dead returns an error about the first process that no longer runs, or nil.
func (s *State) Dead() error {
	for _, p := range s.Processes {
		if !p.Alive() {
			return fmt.Errorf("%s (pid %d) is not running; read %s", p.Name, p.PID, p.Log)
		}
	}
	if !s.Ready {
		return fmt.Errorf("the cluster in %s is not up yet, or its start was interrupted", s.layout.Dir)
	}
	return nil
}

// Layout returns the paths of the cluster's files.
func (s *State) Layout() controlplane.Layout { return s.layout }

// Load returns the state of the cluster in dir.
func Load(dir string) (*State, error) {
	layout, err := layoutOf(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(layout.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist, so no cluster is in it", dir)
	}
	data, err := os.ReadFile(filepath.Join(layout.Dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no cluster is in %s: it has no file %s", dir, stateFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's state: %w", err)
	}
	state := &State{layout: layout}
	// An empty file is a claim whose owner was interrupted.
	if len(data) == 0 {
		return state, nil
	}
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("reading the cluster's state in %s: %w", filepath.Join(layout.Dir, stateFile), err)
	}
	return state, nil
}

// claim creates the state file in dir, before anything runs.
func claim(dir string) (*State, error) {
	layout, err := layoutOf(dir)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(layout.Dir)
	made := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(layout.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the cluster's directory: %w", err)
	}
	for _, path := range []string{layout.Data(), layout.Disks(), layout.AdminKubeconfig()} {
		if _, err := os.Lstat(path); err == nil && !exists(filepath.Join(layout.Dir, stateFile)) {
			return nil, fmt.Errorf("%s is in the way: testcluster did not make it; choose another --dir", path)
		}
	}
	file, err := os.OpenFile(filepath.Join(layout.Dir, stateFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("a cluster is in %[1]s already; take it down first: testcluster down --dir %[1]s", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("claiming the cluster's directory: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("claiming the cluster's directory: %w", err)
	}
	return &State{CreatedAt: time.Now().UTC().Truncate(time.Second), MadeDir: made, layout: layout}, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// layoutOf returns the layout in dir. Its path is absolute, because the processes
// have other working directories.
func layoutOf(dir string) (controlplane.Layout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return controlplane.Layout{}, fmt.Errorf("resolving the directory %s: %w", dir, err)
	}
	return controlplane.Layout{Dir: abs}, nil
}

// save writes the state atomically. It does not recreate the file of a cluster that
// was removed meanwhile.
func (s *State) save() error {
	path := filepath.Join(s.layout.Dir, stateFile)
	if !exists(path) {
		return fmt.Errorf("the cluster in %s was removed meanwhile", s.layout.Dir)
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	return nil
}
