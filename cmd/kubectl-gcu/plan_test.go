package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// plannable creates a gr whose driver runs on nodes NAME-1 to NAME-3, upgraded one at a
// time.
func (s *site) plannable(name string) *topsv1.GcuResource {
	s.t.Helper()
	gr := s.gr(name, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable, "1")
	rendered, err := component.Render(gr, name+"-1")
	if err != nil {
		s.t.Fatal(err)
	}
	set := rendered[0].PerNode
	set.Status.ObservedGeneration = 1
	s.create(set)
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}
	hash := map[string]string{component.LabelName: set.Name, appsv1.ControllerRevisionHashLabelKey: "old"}
	revision := &appsv1.ControllerRevision{Revision: 1, ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + "-old", Labels: hash, OwnerReferences: owner}}
	revision.Data.Raw = []byte("{}")
	s.create(revision)
	for i := range 3 {
		node := fmt.Sprintf("%s-%d", name, i+1)
		s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{topsv1.LabelGcuPresent: "true"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		s.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: node, Labels: hash, OwnerReferences: owner},
			Spec:   corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
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
	s.says(reader.gcuWith(t.Context(), file, "plan", "-f", "-"), exitOK, "not checked by the API server: you may not change gr planned", "3 of 3 nodes upgraded")
	narrow := s.as("plan-narrow", reads(topsv1.GroupVersion.Group, "gcuresources", "daemonrollouts"))
	s.says(narrow.gcu("plan", "planned"), exitForbidden, "missing right: list daemonsets.apps")

	s.says(s.gcu("__complete", "plan", ""), exitOK, "planned")
	s.says(s.gcu("__complete", "plan", "--nodes", "planned-1,"), exitOK, "planned-1,planned-2")
	s.says(s.gcu("__complete", "upgrade", "--components", "dri"), exitOK, "driver", "toolkit")
	s.says(s.gcu("__complete", "plan", "-o", ""), exitOK, "mermaid")
}
