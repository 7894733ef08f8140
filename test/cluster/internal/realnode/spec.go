package realnode

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
)

// MaxCount is the maximum number of real nodes of a cluster.
const MaxCount = 32

// firstNumber and lastNumber bound the N of a cluster. 10.128.0.0/10, below them, is
// for simulated pods.
const firstNumber, lastNumber = 192, 255

// Spec describes the real nodes to run.
type Spec struct {
	// Count is their number, from 0 to MaxCount.
	Count int `json:"count"`
	// DockerNode is the node with dockerd; empty for none.
	DockerNode string `json:"dockerNode,omitempty"`
}

// Name returns the name of the i-th node, counted from 1: "real-1".
func Name(i int) string { return fmt.Sprintf("real-%d", i) }

// Names returns the names of all nodes.
func (s Spec) Names() []string {
	var names []string
	for i := range s.Count {
		names = append(names, Name(i+1))
	}
	return names
}

// Has reports whether a node is one of them.
func (s Spec) Has(name string) bool { return slices.Contains(s.Names(), name) }

// Validate returns an error that names the invalid flag of the command.
func (s Spec) Validate() error {
	if s.Count < 0 || s.Count > MaxCount {
		return fmt.Errorf("--real-nodes must be from 0 to %d, not %d", MaxCount, s.Count)
	}
	if s.DockerNode != "" && !s.Has(s.DockerNode) {
		return fmt.Errorf("--docker-node must be a real node, %s is none of %d", s.DockerNode, s.Count)
	}
	return nil
}

// Nodes are the real nodes of a cluster.
type Nodes struct {
	Spec
	// Number is the cluster's N.
	Number int `json:"number"`
	// Disks is the folder of the nodes' disks, and Logs of their logs, with a folder per
	// node in each.
	Disks string `json:"disks"`
	Logs  string `json:"logs"`
}

func (n Nodes) address(third, fourth int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n.Number), byte(third), byte(fourth)})
}

// gateway is the bridge's address.
func (n Nodes) gateway() netip.Addr { return n.address(0, 1) }

// APIAddress is the address of the API server: the first of ServiceRange, which is
// therefore that of the Service kubernetes.
func (n Nodes) APIAddress() netip.Addr { return n.address(128, 1) }

// ServiceRange is the range of Services' addresses.
func (n Nodes) ServiceRange() netip.Prefix { return netip.PrefixFrom(n.address(128, 0), 17) }

// nodeAddress is the address of the i-th node.
func (n Nodes) nodeAddress(i int) netip.Addr { return n.address(0, 10+i) }

// podRange is the range of the addresses of pods on the i-th node.
func (n Nodes) podRange(i int) netip.Prefix { return netip.PrefixFrom(n.address(i, 0), 24) }

// prefix is the prefix of all names outside the cluster's directory.
func (n Nodes) prefix() string { return fmt.Sprintf("tc%d", n.Number) }

func (n Nodes) bridge() string { return n.prefix() }

// link is the machine's end of the i-th node's veth pair.
func (n Nodes) link(i int) string { return fmt.Sprintf("%sv%d", n.prefix(), i) }

// id names a node's container, network namespace and cgroup.
func (n Nodes) id(name string) string { return n.prefix() + "-" + name }

func (n Nodes) index(name string) int { return slices.Index(n.Names(), name) + 1 }

// disk is the folder of a node, and root the node's / in it.
func (n Nodes) disk(name string) string { return filepath.Join(n.Disks, name) }
func (n Nodes) root(name string) string { return filepath.Join(n.disk(name), "root") }
