package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/test/cluster/internal/controlplane"
)

// accountTokenLife is how long the token of WriteAccountKubeconfig is valid.
const accountTokenLife = 24 * time.Hour

// AccountKubeconfig returns the default path of a ServiceAccount's kubeconfig. Its
// token is bound to node, unless that is empty.
func (s *State) AccountKubeconfig(namespace, name, node string) string {
	file := namespace + "." + name
	if node != "" {
		file += "." + node
	}
	return filepath.Join(s.layout.Data(), file+".kubeconfig")
}

// WriteAccountKubeconfig writes a kubeconfig with the rights of an existing
// ServiceAccount to path. Its token is valid for 24 hours. If node is not empty, the
// token is bound to that node, like the token of a pod there, and is valid only as
// long as the Node object exists.
func (s *State) WriteAccountKubeconfig(ctx context.Context, namespace, name, node, path string) error {
	config, err := s.restConfig()
	if err != nil {
		return err
	}
	client, err := s.Client()
	if err != nil {
		return err
	}
	seconds := int64(accountTokenLife.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if node != "" {
		bound, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("getting node %s to bind a token to: %w", node, err)
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: bound.Name, UID: bound.UID}
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	user := "system:serviceaccount:" + namespace + ":" + name
	return controlplane.WriteKubeconfig(path, config.Host, config.CAData, user, token.Status.Token)
}
