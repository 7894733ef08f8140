package apiserver

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KubeconfigOf writes a kubeconfig to a temporary file of the test, and returns its path. Its namespace is
// one that no test uses.
func KubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "somewhere-else"}
	c.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// CreateWithStatus creates an object, writes the status that it has, and updates it from the API server.
func CreateWithStatus(ctx context.Context, c client.Client, o client.Object) error {
	withStatus := o.DeepCopyObject().(client.Object)
	if err := c.Create(ctx, o); err != nil {
		return fmt.Errorf("creating %s: %w", o.GetName(), err)
	}
	withStatus.SetResourceVersion(o.GetResourceVersion())
	withStatus.SetUID(o.GetUID())
	if err := c.Status().Update(ctx, withStatus); client.IgnoreNotFound(err) != nil { // of a kind without one
		return fmt.Errorf("writing the status of %s: %w", o.GetName(), err)
	}
	return c.Get(ctx, client.ObjectKeyFromObject(o), o)
}
