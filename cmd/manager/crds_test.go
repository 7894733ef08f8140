package main

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestAManagerRefusesToStartWithAnOlderCRD(t *testing.T) {
	server := apiserver.Shared(t)
	removeTurn(t, server)
	m := startManager(t, "--kubeconfig", server.KubeconfigFile(t), "--log-dir=", "--metrics-bind-address=0",
		"--health-probe-bind-address=0", "--upgrade-api-bind-address=0")
	err := m.wait(t)
	want := "the CRD of DaemonRollout is older than this manager and lacks status.inFlight[].turn, which"
	if err == nil || !strings.Contains(m.stderr.String(), want) {
		t.Errorf("the manager ended with %v, want an error with %q: %s", err, want, m.stderr)
	}
}

// removeTurn takes a field out of the CRD of DaemonRollouts until the test ends.
func removeTurn(t *testing.T, server *apiserver.Server) {
	t.Helper()
	c := server.Client(t, apiserver.Admin)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := c.Get(context.Background(), client.ObjectKey{Name: "daemonrollouts.topsops.enflame.com"}, crd); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.InstallCRDs(); err != nil {
			t.Error(err)
		}
	})
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties",
		"inFlight", "items", "properties", "turn")
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(context.Background(), crd); err != nil {
		t.Fatal(err)
	}
}
