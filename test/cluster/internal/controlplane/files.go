package controlplane

import (
	"fmt"
	"net"
	"os"
	"strings"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/topsops/gcu-operator/test/cluster/internal/kwok"
	"github.com/topsops/gcu-operator/test/cluster/internal/pki"
)

// The control plane's files in the data folder.
const (
	caFile          = "ca.crt"
	servingCertFile = "apiserver.crt"
	servingKeyFile  = "apiserver.key"
	accountKeyFile  = "serviceaccount.key"
	tokenFile       = "tokens.csv"
	kwokConfigFile  = "kwok.yaml"

	kubeletClientCertFile = "kubelet-client.crt"
	kubeletClientKeyFile  = "kubelet-client.key"
)

// user is a client that the API server authenticates by token.
type user struct {
	name, group string
	// kubeconfig is the file for it.
	kubeconfig string
}

// users returns all clients with a token. The components of Kubernetes have no more
// rights than in a real cluster; kwok, which simulates kubelets, has all rights.
func users(c Config) []user {
	l := c.Layout
	all := []user{
		{name: "admin", group: "system:masters", kubeconfig: l.AdminKubeconfig()},
		{name: "system:kube-controller-manager", kubeconfig: l.kubeconfig(controllerManager)},
		{name: "system:kube-scheduler", kubeconfig: l.kubeconfig(scheduler)},
		{name: "kwok", group: "system:masters", kubeconfig: l.kubeconfig(kwokController)},
	}
	if c.RealNodes != nil {
		for _, node := range c.RealNodes.Names {
			all = append(all, user{name: "system:node:" + node, group: "system:nodes", kubeconfig: l.KubeletKubeconfig(node)})
		}
	}
	return all
}

// writeFiles writes all files that the programs read at start.
func writeFiles(c Config, p ports) error {
	bundle, err := pki.New(
		[]net.IP{net.ParseIP(Host), net.ParseIP(serviceIP), net.ParseIP(p.apiHost)},
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"})
	if err != nil {
		return err
	}
	config, err := kwok.Config(c.Timing)
	if err != nil {
		return err
	}
	tokens, err := writeKubeconfigs(c, p, bundle.CACert)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		caFile:          bundle.CACert,
		servingCertFile: bundle.ServingCert,
		servingKeyFile:  bundle.ServingKey,
		accountKeyFile:  bundle.ServiceAccountKey,
		tokenFile:       tokens,
		kwokConfigFile:  config,

		kubeletClientCertFile: bundle.KubeletClientCert,
		kubeletClientKeyFile:  bundle.KubeletClientKey,
	}
	for name, data := range files {
		if err := os.WriteFile(c.Layout.data(name), data, 0o600); err != nil {
			return fmt.Errorf("writing the control plane's files: %w", err)
		}
	}
	return nil
}

// writeKubeconfigs gives every user a token and a kubeconfig, and returns the token file.
func writeKubeconfigs(c Config, p ports, ca []byte) ([]byte, error) {
	var tokens strings.Builder
	for _, u := range users(c) {
		token, err := pki.Token()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", token, u.name, u.name, u.group)
		if err := WriteKubeconfig(u.kubeconfig, p.apiServerURL(), ca, u.name, token); err != nil {
			return nil, err
		}
	}
	return []byte(tokens.String()), nil
}

// WriteKubeconfig writes a kubeconfig for one user with a token, readable only by its
// owner.
func WriteKubeconfig(path, server string, ca []byte, userName, token string) error {
	const cluster = "testcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[userName] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: userName}
	config.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}
