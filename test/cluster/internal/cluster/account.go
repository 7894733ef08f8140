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

// AccountKubeconfig is where the kubeconfig of a ServiceAccount goes by default.
func (s *State) AccountKubeconfig(namespace, name string) string {
	return filepath.Join(s.layout.Data(), namespace+"."+name+".kubeconfig")
}

// WriteAccountKubeconfig writes a kubeconfig with the rights of an existing
// ServiceAccount to path. Its token is valid for 24 hours.
func (s *State) WriteAccountKubeconfig(ctx context.Context, namespace, name, path string) error {
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
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	user := "system:serviceaccount:" + namespace + ":" + name
	return controlplane.WriteKubeconfig(path, config.Host, config.CAData, user, token.Status.Token)
}
