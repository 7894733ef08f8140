package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Agents are the node agents of a cluster, each with a Host.
type Agents struct {
	names  []string
	byNode map[string]*Process
	hosts  map[string]*Host
	folder string
}

// startedAtOnce limits how many agents start concurrently.
const startedAtOnce = 8

// StartAgents starts a node agent for each of the nodes, on hosts with the given
// version of the driver loaded. The nodes offer their cards from then on.
func (c *Cluster) StartAgents(ctx context.Context, driverVersion string, nodes ...string) (*Agents, error) {
	folder, err := os.MkdirTemp("", "gcu-h-") // short, for the sockets below it
	if err != nil {
		return nil, fmt.Errorf("creating a folder for the hosts: %w", err)
	}
	a := &Agents{byNode: map[string]*Process{}, hosts: map[string]*Host{}, folder: folder, names: slices.Sorted(slices.Values(nodes))}
	for _, name := range a.names {
		if a.hosts[name], err = NewHost(filepath.Join(folder, name), driverVersion); err != nil {
			a.close()
			return nil, err
		}
	}
	for _, name := range a.names { // before an agent reports cards: a plugin without them does not run
		if err := c.offerCards(ctx, name); err != nil {
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

// offerCards lets a node offer the cards of its Host, as its kubelet does once a plugin has
// registered them: the simulated kubelets know no plugins, and the engine of a Host has the right
// runtime.
func (c *Cluster) offerCards(ctx context.Context, name string) error {
	cards := map[corev1.ResourceName]string{}
	for _, plugin := range []string{component.DevicePlugin, component.GcusharePlugin} {
		cards[component.Find(plugin).Offers[0]] = strconv.Itoa(hostCards)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": cards, "allocatable": cards}})
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Client.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("offering the cards of node %s: %w", name, err)
	}
	return nil
}

// Of returns the agent of a node, nil if there is none.
func (a *Agents) Of(node string) *Process { return a.byNode[node] }

// Host returns the host of a node.
func (a *Agents) Host(node string) *Host { return a.hosts[node] }

// Processes returns the agents, ordered by node. Nil has none.
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

// Freeze suspends the agents of nodes until Thaw, as if their machines were lost.
func (a *Agents) Freeze(nodes ...string) error {
	return a.signal(nodes, (*Process).Freeze)
}

// Thaw resumes frozen agents.
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

// Restart ends the agents and starts their program anew, as an update of the node agent does.
func (a *Agents) Restart(c *Cluster) error {
	for _, name := range a.names {
		if err := a.byNode[name].Stop(); err != nil {
			return fmt.Errorf("agent of node %s: %w", name, err)
		}
		again, err := c.Again(a.byNode[name])
		if err != nil {
			return fmt.Errorf("agent of node %s: %w", name, err)
		}
		a.byNode[name] = again
	}
	return nil
}

// Stop stops the agents and removes their hosts. Nil has none.
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

// close removes the hosts.
func (a *Agents) close() {
	for _, h := range a.hosts {
		h.Close()
	}
	_ = os.RemoveAll(a.folder) // a temporary folder
}
