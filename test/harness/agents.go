package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Agents are the node agents of nodes of a cluster, each with a Host.
type Agents struct {
	names  []string
	byNode map[string]*Process
	hosts  map[string]*Host
	folder string
}

// startedAtOnce bounds the agents that are starting.
const startedAtOnce = 8

// StartAgents starts a node agent on nodes of the cluster, on machines that have a
// version of the driver loaded.
func (c *Cluster) StartAgents(ctx context.Context, driverVersion string, nodes ...string) (*Agents, error) {
	folder, err := os.MkdirTemp("", "gcu-h-") // short, for the sockets below it
	if err != nil {
		return nil, fmt.Errorf("making a folder for the machines: %w", err)
	}
	a := &Agents{byNode: map[string]*Process{}, hosts: map[string]*Host{}, folder: folder, names: slices.Sorted(slices.Values(nodes))}
	for _, name := range a.names {
		if a.hosts[name], err = NewHost(filepath.Join(folder, name), driverVersion); err != nil {
			a.close()
			return nil, err
		}
	}
	processes := make([]*Process, len(a.names))
	var starting errgroup.Group
	starting.SetLimit(startedAtOnce)
	for i, name := range a.names {
		starting.Go(func() (err error) {
			processes[i], err = c.StartAgent(ctx, name, a.hosts[name].Root)
			return err
		})
	}
	err = starting.Wait()
	for i, name := range a.names {
		if processes[i] != nil {
			a.byNode[name] = processes[i]
		}
	}
	return a, err
}

// Of returns the agent of a node, nil when there is none.
func (a *Agents) Of(node string) *Process { return a.byNode[node] }

// Host returns the machine of a node.
func (a *Agents) Host(node string) *Host { return a.hosts[node] }

// Processes returns the agents by node. Nil has none.
func (a *Agents) Processes() []*Process {
	var all []*Process
	if a == nil {
		return nil
	}
	for _, name := range a.names {
		if p := a.byNode[name]; p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Freeze stops the agents of nodes where they are, as the loss of the machine does,
// until Thaw.
func (a *Agents) Freeze(nodes ...string) error {
	return a.signal(nodes, (*Process).Freeze)
}

// Thaw lets frozen agents go on.
func (a *Agents) Thaw(nodes ...string) error {
	return a.signal(nodes, (*Process).Thaw)
}

func (a *Agents) signal(nodes []string, send func(*Process) error) error {
	for _, node := range nodes {
		p := a.byNode[node]
		if p == nil {
			return fmt.Errorf("node %s has no agent", node)
		}
		if err := send(p); err != nil {
			return fmt.Errorf("agent of node %s: %w", node, err)
		}
	}
	return nil
}

// Stop ends the agents and takes their machines away. Nil has none.
func (a *Agents) Stop() error {
	if a == nil {
		return nil
	}
	var errs []error
	for _, p := range a.Processes() {
		errs = append(errs, p.Stop())
	}
	a.close()
	return errors.Join(errs...)
}

// close takes the machines away.
func (a *Agents) close() {
	for _, h := range a.hosts {
		h.Close()
	}
	_ = os.RemoveAll(a.folder) // a temporary folder
}
