package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/topsops/gcu-operator/test/cluster/internal/process"
	"github.com/topsops/gcu-operator/test/cluster/internal/realnode"
)

// stopGrace is how long a process may take to exit after SIGTERM.
const stopGrace = 5 * time.Second

// Down stops all processes of the cluster, waits until they have exited and removes
// its files, except the logs if keepLogs is set. Other files in the directory are
// kept.
func (s *State) Down(keepLogs bool) error {
	if err := s.stop(); err != nil {
		return err
	}
	return s.remove(keepLogs)
}

// stop stops the real nodes and the processes. etcd, the first in the list, is
// stopped last: the others are slow to exit without it.
func (s *State) stop() error {
	// The state may be incomplete: its writer may have been interrupted.
	if err := realnode.Remove(context.Background(), s.owner()); err != nil {
		return err
	}
	if len(s.Processes) == 0 {
		return nil
	}
	if err := process.Stop(s.Processes[1:], stopGrace); err != nil {
		return err
	}
	return process.Stop(s.Processes[:1], stopGrace)
}

// remove removes the files, the state file last: until then the directory still
// belongs to a cluster, and Down can be retried.
func (s *State) remove(keepLogs bool) error {
	state := filepath.Join(s.layout.Dir, stateFile)
	paths := []string{s.layout.Data(), s.layout.Disks(), s.layout.AdminKubeconfig(), state + ".new"}
	if !keepLogs {
		paths = append(paths, s.layout.Logs())
	}
	for _, path := range append(paths, state) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the cluster's files: %w", err)
		}
	}
	if !s.MadeDir || keepLogs {
		return nil
	}
	// A directory with other files is kept.
	if err := os.Remove(s.layout.Dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("removing the cluster's directory: %w", err)
	}
	return nil
}
