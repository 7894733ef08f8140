// Package controlplane starts etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kwok on 127.0.0.1 and waits until they are healthy. With real
// nodes the API server listens on an address that they can reach.
//
// Every component and every kubelet authenticates with its own token from the API
// server's token file. The only certificates are the API server's serving certificate
// and its client certificate for kubelets.
package controlplane

import (
	"net/netip"
	"path/filepath"
	"time"

	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
	"github.com/topsops/gcu-operator/test/cluster/internal/process"
	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
)

// Host is the only address that anything listens on, except for RealNodes.API.
const Host = "127.0.0.1"

// Names of the components and their programs.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwokController    = "kwok"
)

// Config is the configuration of a control plane.
type Config struct {
	// Layout has the paths of its files.
	Layout Layout
	// Binary returns the path of a program, such as "etcd".
	Binary func(name string) string
	// KubernetesVersion is that of the programs, such as "v1.36.3".
	KubernetesVersion string
	// NodeMonitorGracePeriod is how long a node's lease may be stale before the
	// node becomes NotReady.
	NodeMonitorGracePeriod time.Duration
	// NodeLeaseDuration is the duration of nodes' leases, which are renewed after a quarter of it.
	NodeLeaseDuration time.Duration
	// ControllerManagerQPS and ControllerManagerBurst limit the requests of each
	// controller.
	ControllerManagerQPS, ControllerManagerBurst int
	// RealNodes are the real nodes; nil if there are none.
	RealNodes *RealNodes
	// Timing is how fast pods start and stop.
	Timing kwok.Timing
	// Started is called with every process as soon as it runs.
	Started func(process.Record) error
	// Progress reports every step.
	Progress *progress.Printer
}

// RealNodes describes the real nodes to the control plane.
type RealNodes struct {
	// Names are the nodes' names.
	Names []string
	// API is the address on port 443 of the API server; it must be an address of this
	// machine, and the first of ServiceRange. So the Service kubernetes works without
	// forwarding.
	API netip.Addr
	// ServiceRange is the address range of Services.
	ServiceRange netip.Prefix
}

// Layout names the files of a cluster in its directory.
type Layout struct {
	// Dir is the absolute path of the directory.
	Dir string
}

// AdminKubeconfig is the kubeconfig for the user.
func (l Layout) AdminKubeconfig() string { return filepath.Join(l.Dir, "admin.kubeconfig") }

// Logs is the folder of the log files.
func (l Layout) Logs() string { return filepath.Join(l.Dir, "logs") }

// Log is the log file of one component.
func (l Layout) Log(name string) string { return filepath.Join(l.Logs(), name+".log") }

// Disks is the folder of the real nodes' disks.
func (l Layout) Disks() string { return filepath.Join(l.Dir, "nodes") }

// Data is the folder of all other files of the control plane.
func (l Layout) Data() string { return filepath.Join(l.Dir, "data") }

func (l Layout) data(name string) string { return filepath.Join(l.Data(), name) }

// CA is the certificate that signs the API server's two certificates.
func (l Layout) CA() string { return l.data(caFile) }

// KubeletKubeconfig is the kubeconfig for the kubelet of a real node.
func (l Layout) KubeletKubeconfig(node string) string { return l.kubeconfig("kubelet." + node) }

func (l Layout) kubeconfig(component string) string { return l.data(component + ".kubeconfig") }
