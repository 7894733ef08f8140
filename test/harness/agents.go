package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// Agents are the node agents of all nodes of a cluster, each with a Host.
type Agents struct {
	names  []string
	byNode map[string]*Process
	hosts  map[string]*Host
	folder string
}

// startedAtOnce bounds the agents that are starting.
const startedAtOnce = 8

// StartAgents starts a node agent on every node of the cluster, on machines that
// have a version of the driver loaded.
func (c *Cluster) StartAgents(ctx context.Context, driverVersion string) (*Agents, error) {
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	folder, err := os.MkdirTemp("", "gcu-h-") // short, for the sockets below it
	if err != nil {
		return nil, fmt.Errorf("making a folder for the machines: %w", err)
	}
	a := &Agents{byNode: map[string]*Process{}, hosts: map[string]*Host{}, folder: folder}
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		if a.hosts[name], err = NewHost(filepath.Join(folder, name), driverVersion); err != nil {
			a.Close()
			return nil, err
		}
		a.names = append(a.names, name)
	}
	slices.Sort(a.names)
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

// Restart replaces the agent of a node, as its DaemonSet does: for a Node object that
// is another one now, for which the token of the agent is not valid.
func (a *Agents) Restart(ctx context.Context, c *Cluster, node string) error {
	if err := a.signal([]string{node}, (*Process).Stop); err != nil {
		return err
	}
	p, err := c.StartAgent(ctx, node, a.hosts[node].Root)
	if p != nil {
		a.byNode[node] = p
	}
	return err
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

// Close takes the machines away, after their agents have ended. Nil has none.
func (a *Agents) Close() {
	if a == nil {
		return
	}
	for _, h := range a.hosts {
		h.Close()
	}
	_ = os.RemoveAll(a.folder) // a temporary folder
}
