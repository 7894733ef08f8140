// Package distribution knows the distributions of Kubernetes that bring a containerd of their own: k3s, RKE2 and
// MicroK8s. It is pure: pkg/hostagent looks for their files on a host, pkg/gcuresource for their nodes in a cluster.
package distribution

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Containerd is where a containerd of a host is. Paths are relative to the host root.
type Containerd struct {
	Socket string
	// Config is the file it reads. Others may be imported there.
	Config string
	// Templates are what a distribution makes Config from whenever containerd starts; it uses
	// the first that exists.
	Templates []string
	// DropIns are patterns of the files that a Config of the distribution imports.
	DropIns []string
	// Units are the systemd units that may run it, of which a host has one.
	Units []string
}

// Packaged returns the containerd of the packages of containerd and docker.
func Packaged() Containerd {
	return Containerd{Socket: "run/containerd/containerd.sock", Config: "etc/containerd/config.toml", Units: []string{"containerd.service"}}
}

// Containerds returns those that distributions bring, whose configuration they recreate at each
// start. Those of k3s and RKE2 have the same socket; the one whose configuration is there is
// the one of a host.
func Containerds() []Containerd {
	return []Containerd{
		rancher("rke2", "rke2-server.service", "rke2-agent.service"),
		rancher("k3s", "k3s.service", "k3s-agent.service"),
		{ // MicroK8s
			Socket:    "var/snap/microk8s/common/run/containerd.sock",
			Config:    "var/snap/microk8s/current/args/containerd.toml",
			Templates: []string{"var/snap/microk8s/current/args/containerd-template.toml"},
			Units:     []string{"snap.microk8s.daemon-containerd.service"},
		},
	}
}

// rancher returns the containerd of k3s or RKE2. The names with v3 are for containerd 2.
func rancher(name string, units ...string) Containerd {
	directory := path.Join("var/lib/rancher", name, "agent/etc/containerd")
	return Containerd{
		Socket:    "run/k3s/containerd/containerd.sock",
		Config:    path.Join(directory, "config.toml"),
		Templates: []string{path.Join(directory, "config-v3.toml.tmpl"), path.Join(directory, "config.toml.tmpl")},
		DropIns:   []string{path.Join(directory, "config-v3.toml.d/*.toml"), path.Join(directory, "config.toml.d/*.toml")},
		Units:     units,
	}
}

// Configures returns the files, and patterns of files, that may configure the containerd.
func (c Containerd) Configures() []string {
	return append(append([]string{c.Config}, c.Templates...), c.DropIns...)
}

// labelMicroK8s is on every node of MicroK8s: its kubelet registers with it.
const labelMicroK8s = "microk8s.io/cluster"

// Brings reports whether a node is one of a distribution of Containerds. Kubelets of k3s and RKE2
// have the name in their version, such as v1.33.1+k3s1 and v1.33.1+rke2r1.
func Brings(node *corev1.Node) bool {
	_, build, _ := strings.Cut(node.Status.NodeInfo.KubeletVersion, "+")
	return strings.HasPrefix(build, "k3s") || strings.HasPrefix(build, "rke2") || node.Labels[labelMicroK8s] == "true"
}
