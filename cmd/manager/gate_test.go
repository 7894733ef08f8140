package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/logging"
)

func TestGateMode(t *testing.T) {
	served := meta.NewDefaultRESTMapper([]schema.GroupVersion{gatePolicy.GroupVersion()})
	served.Add(gatePolicy, meta.RESTScopeRoot)
	old := meta.NewDefaultRESTMapper([]schema.GroupVersion{gatePolicy.GroupVersion()})
	for name, c := range map[string]struct {
		asked bool
		kinds meta.RESTMapper
		want  gating.Mode
		loud  bool
	}{
		"not asked for":                        {false, served, gating.Off, false},
		"the API server serves the policy":     {true, served, gating.On, false},
		"the API server is older than 1.36":    {true, old, gating.NotServed, true},
		"not asked for on an older API server": {false, old, gating.Off, false},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := gateMode(c.asked, c.kinds, logging.New(&out, logging.Options{}))
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			if loud := strings.Contains(out.String(), "The gate is not available"); loud != c.loud {
				t.Errorf("it logs %q", out.String())
			}
		})
	}
}
