package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/servedschema"
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

func TestAManagerEndsWhenItsCRDsAreReplacedByOlderOnes(t *testing.T) {
	server := apiserver.Shared(t)
	client, err := discovery.NewDiscoveryClientForConfig(server.As(apiserver.Admin))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	looks := 0
	guard := crdGuard{every: time.Millisecond, poll: time.Millisecond, patience: time.Second, lacks: func(ctx context.Context) error {
		if looks++; looks == 3 {
			removeTurn(t, server)
		}
		return lacksFields(ctx, client)
	}}
	err = guard.Start(ctx)
	if want := "the CRD of DaemonRollout is older than this manager and lacks status.inFlight[].turn, which"; err == nil || !strings.Contains(err.Error(), want) || looks < 3 {
		t.Errorf("the manager ends with %v after %d looks, want an error with %q", err, looks, want)
	}
}

func TestAManagerGoesOnWithoutKnowingItsCRDs(t *testing.T) {
	older := &servedschema.Older{Kind: "DaemonRollout", Missing: []string{"status.inFlight[].turn"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answers := []error{nil, errors.New("the API server is away"), older, errors.New("away again"), nil, older, nil, nil}
	guard := crdGuard{every: time.Millisecond, poll: time.Millisecond, patience: time.Hour, lacks: func(context.Context) error {
		answer := answers[0]
		if answers = answers[1:]; len(answers) == 0 {
			cancel()
			answers = []error{nil}
		}
		return answer
	}}
	if err := guard.Start(ctx); err != nil {
		t.Errorf("it ends with %v", err)
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
