package main

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// TestTheGateIsLookedFor: what a manager with --gate finds, again and again, and what it says.
func TestTheGateIsLookedFor(t *testing.T) {
	served := meta.NewDefaultRESTMapper([]schema.GroupVersion{gatePolicy.GroupVersion()})
	served.Add(gatePolicy, meta.RESTScopeRoot)
	old := meta.NewDefaultRESTMapper([]schema.GroupVersion{gatePolicy.GroupVersion()})
	all := []string{"MutatingAdmissionPolicy gcu-operator-gate", "MutatingAdmissionPolicyBinding gcu-operator-gate", "MutatingAdmissionPolicyBinding gcu-operator-gate-gcuresources"}
	resource := schema.GroupResource{Group: gatePolicy.Group}
	notFound, forbidden := apierrors.NewNotFound(resource, ""), apierrors.NewForbidden(resource, "", nil)
	for name, c := range map[string]struct {
		kinds meta.RESTMapper
		// missing is refused with an error at the second look.
		missing string
		err     error
		want    gating.Mode
		logs    string
		// of is the namespace of the binding for grs at the second look, other than the manager's.
		of string
	}{
		"the policy and its bindings are there": {kinds: served, want: gating.On},
		"the API server is older than 1.36":     {kinds: old, want: gating.NotServed, logs: "1.36"},
		"the policy was deleted":                {kinds: served, missing: all[0], err: notFound, want: gating.NotInstalled, logs: "config/gate is not installed"},
		"a binding was deleted":                 {kinds: served, missing: all[1], err: notFound, want: gating.NotInstalled, logs: "config/gate is not installed"},
		"the other binding was deleted":         {kinds: served, missing: all[2], err: notFound, want: gating.NotInstalled, logs: "config/gate is not installed"},
		"the rights are not there either":       {kinds: served, missing: all[0], err: forbidden, want: gating.NotInstalled, logs: "config/gate is not installed"},
		"a binding is for another namespace":    {kinds: served, of: "kube-system", want: gating.NotInstalled, logs: `gcu-operator-gate-gcuresources is for namespace \"kube-system\" (spec.paramRef.namespace), want \"ops\"`},
		"the API server does not answer":        {kinds: served, missing: all[0], err: apierrors.NewTimeoutError("later", 1), want: gating.On, logs: "Could not check"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			missing, of, available := "", "ops", false
			live := interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
					if object.GetObjectKind().GroupVersionKind().Kind+" "+key.Name == missing {
						return c.err
					}
					if key.Name == "gcu-operator-gate-gcuresources" {
						return unstructured.SetNestedField(object.(*unstructured.Unstructured).Object, of, "spec", "paramRef", "namespace")
					}
					return nil
				}})
			g := &gate{live: live, namespace: "ops", show: func(is bool) { available = is }, changed: make(chan struct{}, 1), log: logging.New(&out, logging.Options{})}
			if err := g.begin(c.kinds); err != nil {
				t.Fatal(err)
			}
			if c.kinds == served {
				g.look(t.Context())
				missing, of = c.missing, cmp.Or(c.of, of)
				g.look(t.Context())
				g.look(t.Context())
				if changed := len(g.changed) > 0; changed != (c.want != gating.On) {
					t.Errorf("it wakes the groups: %t", changed)
				}
			}
			if got := g.Mode(); got != c.want || available != (c.want == gating.On) || !strings.Contains(out.String(), c.logs) || (c.logs == "") != (out.Len() == 0) {
				t.Errorf("mode %q, available: %t, want %q; it logs %q", got, available, c.want, out.String())
			}
			if advised := strings.Contains(out.String(), "Install config/gate"); advised != (c.want != gating.On && c.of == "") {
				t.Errorf("it logs %q", out.String())
			}
			if logged := strings.Count(out.String(), "The gate is not available"); logged > 1 {
				t.Errorf("it logs %q", out.String())
			}
			if missing, of = "", "ops"; c.want == gating.NotInstalled {
				if g.look(t.Context()); g.Mode() != gating.On || !available {
					t.Error("it does not see that config/gate is there again")
				}
			}
		})
	}
}
