package controlplane

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
)

const (
	// serviceRange is the range of Services' addresses, serviceIP the API server's own in it.
	serviceRange = "10.96.0.0/16"
	serviceIP    = "10.96.0.1"
	// podRange is the range of pods' addresses.
	podRange = "10.128.0.0/10"
	// issuer is the issuer of ServiceAccount tokens.
	issuer = "https://kubernetes.default.svc.cluster.local"
	// nodeMonitorPeriod is how often the controller manager checks the nodes.
	nodeMonitorPeriod = 2 * time.Second
	// schedulerQPS and schedulerBurst let the pods of a thousand nodes be bound in seconds.
	schedulerQPS, schedulerBurst = 500, 1000
	// maxLease is how long a kubelet's lease holds: the default of Kubernetes.
	maxLease = 40 * time.Second
)

// ports are the ports of the components: on Host, and the API server's on apiHost.
type ports struct {
	apiHost                                                             string
	etcdClient, etcdPeer, apiServer, controllerManager, scheduler, kwok int
}

func (p ports) apiServerURL() string {
	return "https://" + net.JoinHostPort(p.apiHost, strconv.Itoa(p.apiServer))
}

func address(port int) string { return net.JoinHostPort(Host, strconv.Itoa(port)) }

// LeaseDuration returns the duration of node leases. They are renewed after a quarter
// of it, which must be well within the grace period.
func LeaseDuration(gracePeriod time.Duration) time.Duration {
	return max(time.Second, min(maxLease, gracePeriod*5/2))
}

func etcdArgs(l Layout, p ports, member string) []string {
	client, peer := "http://"+address(p.etcdClient), "http://"+address(p.etcdPeer)
	return []string{
		"--name=" + member,
		"--data-dir=" + l.data("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + member + "=" + peer,
		// A test cluster need not survive a power failure.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
}

func apiServerArgs(c Config, p ports) []string {
	l := c.Layout
	args := []string{
		"--bind-address=" + p.apiHost,
		"--advertise-address=" + p.apiHost,
		"--secure-port=" + strconv.Itoa(p.apiServer),
		"--cert-dir=" + l.data("apiserver"),
		"--tls-cert-file=" + l.data(servingCertFile),
		"--tls-private-key-file=" + l.data(servingKeyFile),
		"--etcd-servers=http://" + address(p.etcdClient),
		"--token-auth-file=" + l.data(tokenFile),
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + l.data(accountKeyFile),
		"--service-account-signing-key-file=" + l.data(accountKeyFile),
		"--allow-privileged=true",
		"--profiling=false",
	}
	if strings.HasPrefix(c.KubernetesVersion, "v1.30.") {
		args = append(args, "--feature-gates=ServiceAccountTokenNodeBinding=true") // on by default from 1.31 on: testcluster kubeconfig --node
	}
	if c.RealNodes == nil {
		// The kubernetes Service may not point to a loopback address.
		return append(args, "--service-cluster-ip-range="+serviceRange, "--endpoint-reconciler-type=none")
	}
	return append(args,
		"--service-cluster-ip-range="+c.RealNodes.ServiceRange.String(),
		"--kubelet-client-certificate="+l.data(kubeletClientCertFile),
		"--kubelet-client-key="+l.data(kubeletClientKeyFile),
		"--kubelet-preferred-address-types=InternalIP",
		"--enable-admission-plugins=NodeRestriction")
}

func controllerManagerArgs(c Config, p ports) []string {
	return []string{
		"--bind-address=" + Host,
		"--secure-port=" + strconv.Itoa(p.controllerManager),
		"--kubeconfig=" + c.Layout.kubeconfig(controllerManager),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.Layout.data(accountKeyFile),
		"--root-ca-file=" + c.Layout.data(caFile),
		"--node-monitor-grace-period=" + c.NodeMonitorGracePeriod.String(),
		"--node-monitor-period=" + nodeMonitorPeriod.String(),
		"--kube-api-qps=" + strconv.Itoa(c.ControllerManagerQPS),
		"--kube-api-burst=" + strconv.Itoa(c.ControllerManagerBurst),
		"--profiling=false",
	}
}

func schedulerArgs(l Layout, p ports) []string {
	return []string{
		"--bind-address=" + Host,
		"--secure-port=" + strconv.Itoa(p.scheduler),
		"--kubeconfig=" + l.kubeconfig(scheduler),
		"--leader-elect=false",
		"--kube-api-qps=" + strconv.Itoa(schedulerQPS),
		"--kube-api-burst=" + strconv.Itoa(schedulerBurst),
		"--profiling=false",
	}
}

func kwokArgs(c Config, p ports) []string {
	lease := c.NodeLeaseDuration
	return []string{
		"--kubeconfig=" + c.Layout.kubeconfig(kwokController),
		"--config=" + c.Layout.data(kwokConfigFile),
		"--manage-all-nodes=false",
		fmt.Sprintf("--manage-nodes-with-label-selector=%s=%s", kwok.OnlineLabel, kwok.OnlineValue),
		"--node-lease-duration-seconds=" + strconv.Itoa(int(lease.Seconds())),
		"--cidr=" + podRange,
		"--server-address=" + address(p.kwok),
	}
}
