package realnode

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// MakeBridge creates the bridge with the API server's address.
func (n Nodes) MakeBridge(ctx context.Context) error {
	bridge := n.bridge()
	lines := []string{
		// A fixed MAC address: otherwise the bridge takes a veth's, which disappears with its
		// node, and other nodes would use the old one for a while.
		fmt.Sprintf("link add name %s address 02:00:00:00:00:%02x type bridge", bridge, n.Number),
		fmt.Sprintf("address add %s/24 dev %s", n.gateway(), bridge),
		fmt.Sprintf("address add %s/32 dev %s", n.APIAddress(), bridge),
		fmt.Sprintf("link set %s up", bridge),
	}
	for i := 1; i <= n.Count; i++ {
		lines = append(lines, fmt.Sprintf("route add %s via %s", n.podRange(i), n.nodeAddress(i)))
	}
	if err := ip(ctx, "", lines...); err != nil {
		return fmt.Errorf("creating the bridge of the real nodes: %w", err)
	}
	return nil
}

// connect creates a node's network namespace and its veth pair to the bridge.
func (n Nodes) connect(ctx context.Context, name string) error {
	i, namespace := n.index(name), n.id(name)
	if err := ip(ctx, "",
		"netns add "+namespace,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", n.link(i), namespace),
		fmt.Sprintf("link set %s master %s up", n.link(i), n.bridge())); err != nil {
		return fmt.Errorf("connecting node %s: %w", name, err)
	}
	lines := []string{
		"link set lo up",
		"link set eth0 up",
		fmt.Sprintf("address add %s/24 dev eth0", n.nodeAddress(i)),
		fmt.Sprintf("route add default via %s", n.gateway()),
	}
	for other := 1; other <= n.Count; other++ {
		if other != i {
			lines = append(lines, fmt.Sprintf("route add %s via %s", n.podRange(other), n.nodeAddress(other)))
		}
	}
	if err := ip(ctx, namespace, lines...); err != nil {
		return fmt.Errorf("connecting node %s: %w", name, err)
	}
	return nil
}

// SetLink sets the machine's end of a node's veth pair up or down. The node must be
// running.
func (n Nodes) SetLink(ctx context.Context, name string, up bool) error {
	if err := n.needPower(name); err != nil {
		return err
	}
	state := "down"
	if up {
		state = "up"
	}
	if err := ip(ctx, "", fmt.Sprintf("link set %s %s", n.link(n.index(name)), state)); err != nil {
		return fmt.Errorf("setting the link of node %s %s: %w", name, state, err)
	}
	return nil
}

// linked reports whether a node's link is up.
func (n Nodes) linked(name string) bool {
	link, err := net.InterfaceByName(n.link(n.index(name)))
	return err == nil && link.Flags&net.FlagUp != 0
}

// removeNetwork removes the network namespaces and interfaces of a cluster, or with a
// name those of one node. Missing ones are ignored.
func (n Nodes) removeNetwork(ctx context.Context, name string) error {
	listed, err := run(ctx, nil, "ip", "netns", "list")
	if err != nil {
		return fmt.Errorf("listing network namespaces: %w", err)
	}
	var lines []string
	for line := range strings.Lines(listed) {
		namespace, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if namespace == n.id(name) || name == "" && strings.HasPrefix(namespace, n.id("")) {
			lines = append(lines, "netns delete "+namespace)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing interfaces: %w", err)
	}
	for _, link := range links {
		ours := link.Name == n.bridge() || strings.HasPrefix(link.Name, n.bridge()+"v")
		if name != "" {
			ours = link.Name == n.link(n.index(name))
		}
		if ours {
			// Removes the link at once, not some time after its namespace.
			lines = append([]string{"link delete " + link.Name}, lines...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return ip(ctx, "", lines...)
}
