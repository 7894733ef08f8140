package main

import (
	"encoding/json"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/test/world"
)

// plannable creates a gr whose driver runs on nodes NAME-1 to NAME-3, upgraded one at a
// time.
func (s *site) plannable(name string) *topsv1.GcuResource {
	s.t.Helper()
	gr := s.gr(name, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable, "1")
	if err := world.Deploy(gr, s.create); err != nil {
		s.t.Fatal(err)
	}
	return gr
}

func TestPlanOfARealServer(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("planned")
	file := grFile("planned", "1.1")
	s.says(s.gcu("plan", "planned"), exitOK, "GcuResource planned: nothing to do")
	s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-"), exitOK, "3 of 3 nodes upgraded, at most 1 unavailable at once", "driver.version: 1.0 -> 1.1",
		"gcu-driver:1.0 -> gcu-driver:1.1", "upgraded node by node", "EvictAccelerator", "replace driver")
	s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-", "-o", "wide", "--nodes", "planned-2,planned-3"), exitOK, "limited to 2 nodes (planned-2, planned-3)",
		"2 of 3 nodes upgraded", "turn 2", "1 node not upgraded", "LeftOut", "kubectl gcu upgrade planned --all")
	var told preview.Preview
	a := s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-", "--nodes", "planned-2", "-o", "json"), exitOK)
	if err := json.Unmarshal([]byte(a.out), &told); err != nil || len(told.Nodes) != 1 || told.Nodes[0].Name != "planned-2" || len(told.Plan) != 1 || told.Only != "nodes=planned-2" {
		t.Errorf("-o json: %v, %+v", err, told)
	}
	s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-", "-o", "mermaid"), exitOK, "flowchart TD", "replace driver")
	s.says(s.gcuWith(t.Context(), strings.Replace(file, "driver", "gfd", 1), "plan", "-f", "-"), exitOK, "3 of 3 nodes upgraded",
		"driver      3       removed node by node", "gfd         all     deployed AT ONCE")

	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a node that there is not":      {[]string{"-f", "-", "--nodes", "planned-1,absent"}, exitUsage, "there is no node absent"},
		"a component that is not there": {[]string{"-f", "-", "--components", "gfd"}, exitUsage, `no component "gfd" on its nodes; it has driver`},
		"no names":                      {[]string{"-f", "-", "--nodes", ""}, exitUsage, "--nodes has an empty name"},
		"an empty name":                 {[]string{"-f", "-", "--nodes", "planned-1,,planned-2"}, exitUsage, "--nodes has an empty name"},
		"all and some":                  {[]string{"-f", "-", "--all", "--nodes", "planned-1"}, exitUsage, "exclude each other"},
		"another gr":                    {[]string{"other", "-f", "-"}, exitRefused, "holds gr planned, not other"},
		"a gr that there is not":        {[]string{"absent"}, exitRefused, "there is no gr absent"},
		"a format that there is not":    {[]string{"planned", "-o", "dot"}, exitUsage, "table, wide, json, yaml, mermaid"},
	} {
		s.says(s.gcuWith(t.Context(), file, append([]string{"plan"}, tt.args...)...), tt.code, tt.says)
		_ = name
	}
	s.says(s.gcuWith(t.Context(), grFile("planned", "a b"), "plan", "-f", "-"), exitFailed, "spec.driver.version")
	before := gr.ResourceVersion
	if s.read(gr); gr.ResourceVersion != before {
		t.Error("a plan changed the gr")
	}

	reads := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}
	}
	reader := s.as("plan-reader", reads(topsv1.GroupVersion.Group, "gcuresources", "daemonrollouts", "nodeupgrades", "upgradepolicies"),
		reads("apps", "daemonsets", "controllerrevisions"), reads("", "pods", "nodes"), reads("policy", "poddisruptionbudgets"))
	s.says(reader.gcuWith(t.Context(), file, "plan", "-f", "-"), exitOK, "not checked by the API server: you do not have permission to change gr planned", "3 of 3 nodes upgraded")
	narrow := s.as("plan-narrow", reads(topsv1.GroupVersion.Group, "gcuresources", "daemonrollouts"))
	s.says(narrow.gcu("plan", "planned"), exitForbidden, "missing permission: list daemonsets.apps")

	s.says(s.gcu("__complete", "plan", ""), exitOK, "planned")
	s.says(s.gcu("__complete", "plan", "--nodes", "planned-1,"), exitOK, "planned-1,planned-2")
	s.says(s.gcu("__complete", "upgrade", "--components", "dri"), exitOK, "driver", "toolkit")
	s.says(s.gcu("__complete", "plan", "-o", ""), exitOK, "mermaid")
}
