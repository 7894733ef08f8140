package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// daemonSet creates a DaemonSet of a gr.
func (s *site) daemonSet(gr *topsv1.GcuResource) *appsv1.DaemonSet {
	s.t.Helper()
	labels := map[string]string{"app": gr.Name}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: gr.Name,
		Labels:          map[string]string{topsv1.LabelGcuResource: gr.Name, topsv1.LabelManagedBy: topsv1.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: "GcuResource", Name: gr.Name, UID: gr.UID, Controller: ptr.To(true)}}},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeSelector: map[string]string{"fleet": gr.Name}, Containers: []corev1.Container{{
				Name: "main", Image: "app:1", Env: []corev1.EnvVar{{Name: "DB_PASSWORD", Value: "hunter2"}}}}}}},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 1}}
	s.create(set)
	return set
}

// fleet creates a gr with a DaemonSet, an updated node and a failed one.
func (s *site) fleet(name string) {
	s.t.Helper()
	gr := s.gr(name, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	set := s.daemonSet(gr)
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, UID: set.UID, Controller: ptr.To(true)}}
	hash := map[string]string{"app": name, appsv1.ControllerRevisionHashLabelKey: "new"}
	revision := &appsv1.ControllerRevision{Revision: 1, ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-new", Labels: hash, OwnerReferences: owner}}
	revision.Data.Raw = []byte(`{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"X","value":"hunter2"}]}]}}}}`)
	s.create(revision)
	for i, node := range []string{name + "-1", name + "-2"} {
		ready := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[i]
		s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"fleet": name}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		s.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: node, Labels: hash, OwnerReferences: owner},
			Spec:   corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "main", Image: "app:1", Args: []string{"--token=hunter2"}}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}})
	}
	s.rollout(name, topsv1.DaemonRolloutStatus{Strategy: "AdvancedRollingUpdate", Total: 2, Updated: 1, FailedNodes: 1, Revision: "r",
		Failed:     []topsv1.NodeNote{{Node: name + "-2", Reason: "CrashLooping", Message: "container main crash-loops, password=hunter2", Since: metav1.Now()}},
		Conditions: []metav1.Condition{{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", Message: "1 node failed", LastTransitionTime: metav1.Now()}}})
	s.create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Reason: "Halted", Message: "with token: hunter2",
		InvolvedObject: corev1.ObjectReference{Kind: "GcuResource", Name: name, UID: gr.UID}})
}

func TestStatusAndNodesOfARealServer(t *testing.T) {
	s := newSite(t)
	s.fleet("shown")
	s.says(s.gcu("status", "shown"), exitOK, "GcuResource shown: Stopped (Halted)", "shown-2", "CrashLooping", "kubectl gcu rollback shown")
	var one display.Status
	if err := json.Unmarshal([]byte(s.says(s.gcu("status", "shown", "-o", "json"), exitOK).out), &one); err != nil || one.Outcome.State != display.Stopped || len(one.Nodes) != 1 {
		t.Errorf("-o json: %v, %+v", err, one)
	}
	var all list[display.Status]
	if err := yaml.Unmarshal([]byte(s.says(s.gcu("status", "-o", "yaml"), exitOK).out), &all); err != nil || len(all.Items) != 1 || all.Items[0].Name != "shown" {
		t.Errorf("-o yaml: %v, %+v", err, all)
	}
	const zone = "zone"
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: topsv1.UpgradePolicySpec{
		Window: &topsv1.MaintenanceWindow{Start: "10:00", DurationMinutes: 1440, TimeZoneNodeLabel: zone}}})
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "shown"}}
	s.read(gr)
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradePolicy, "nightly")
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("status", "shown"), exitOK, "window: always open, for 2 nodes (shown-1, shown-2)")
	a := s.says(s.gcu("nodes"), exitOK, "shown-1   updated", "shown-2   failed")
	if strings.Count(a.out, "\n") != 3 {
		t.Errorf("more than two nodes:\n%s", a.out)
	}
	a = s.says(s.gcu("nodes", "shown", "--state", "failed", "-o", "json"), exitOK)
	var nodes list[display.Node]
	if err := json.Unmarshal([]byte(a.out), &nodes); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "shown-2" || !nodes.Items[0].Stuck {
		t.Errorf("%v: %s", err, a.out)
	}
	s.says(s.gcu("nodes", "shown", "--state", "pending"), exitOK, "no node of gr shown is pending")
	s.says(s.gcu("status", "shown", "--watch", "--timeout", "20s"), exitNotYet, "Stopped: 1 of 2 updated", "GcuResource shown: Stopped", "Halted: 1 node failed")
	s.says(s.gcu("status", "shown", "-n", "default"), exitOK, "GcuResource shown: Working (NotSeen)", "not shown: the rollout: there is no DaemonRollout of gr shown in namespace default", "name that with -n")
	s.says(s.gcu("status", "shown", "-n", "default", "--watch", "--timeout", "1s"), exitNotYet, "Working: 1/1 ready; its DaemonRollout is not found")
	s.says(s.gcu("nodes", "shown", "-n", "default"), exitOK, "shown-1", "not shown: the rollout: there is no DaemonRollout of gr shown in namespace default")
	s.gr("second")
	s.says(s.gcu("pause"), exitUsage, "there are 2 grs: say which (second, shown)")
	s.says(s.gcu("version", "-o", "json"), exitOK, `"kubernetes": "v1.`, "deployments.apps \\\"gcu-operator\\\" not found")
	s.says(s.gcu("__complete", "pause", ""), exitOK, "second", "shown")
	s.says(s.gcu("__complete", "nodes", "--state", ""), exitOK, "in-flight")
}

// A gr without DaemonSets has nothing to roll out, whatever its strategy is: every gr that is created by the REST API has one.
func TestAGrWithoutDaemonSetsLacksNoRollout(t *testing.T) {
	s := newSite(t)
	s.gr("setless", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	for _, args := range [][]string{{"status", "setless"}, {"status", "setless", "--watch", "--timeout", "20s"}, {"nodes", "setless"}} {
		if a := s.says(s.gcu(args...), exitOK, "etless"); strings.Contains(a.out+a.err, "not shown") || args[0] == "status" && !strings.Contains(a.out, "GcuResource setless: Done") {
			t.Errorf("%v: %s%s", args, a.out, a.err)
		}
	}
	s.says(s.gcu("resume", "setless"), exitOK, "is not paused, and no rollout of it is found in namespace kube-system: there is nothing to resume")
	s.says(s.gcu("report", "setless"), exitRefused, "no rollout of gr setless is found in namespace kube-system")
}

func TestAMissingRightIsReported(t *testing.T) {
	s := newSite(t)
	s.fleet("rights")
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "view_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		t.Fatal(err)
	}
	viewer := s.as("viewer", role.Rules...)
	s.says(viewer.gcu("status", "rights"), exitOK, "GcuResource rights: Stopped")
	s.says(viewer.gcu("nodes", "rights"), exitForbidden, "missing permission: list nodes cluster-wide; kubectl auth can-i list nodes -A")
	s.says(viewer.gcu("history", "rights"), exitForbidden, "missing permission: list controllerrevisions.apps in namespace kube-system; kubectl auth can-i list controllerrevisions.apps -n kube-system")
	s.says(viewer.gcu("pause", "rights"), exitForbidden, "missing permission: patch gcuresources.topsops.enflame.com cluster-wide")
	s.says(viewer.gcuWith(t.Context(), grFile("rights", "2"), "upgrade", "-f", "-"), exitForbidden, "missing permission: patch gcuresources")

	narrow := s.as("narrow", rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"gcuresources"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"list"}})
	s.says(narrow.gcu("status", "rights"), exitOK, "COMPONENT", "not shown: the rollout: missing permission: get daemonrollouts.topsops.enflame.com in namespace kube-system")
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "rights"}}
	s.read(gr)
	s.revision(gr, 1, "1.0")
	s.says(narrow.gcu("history", "rights"), exitOK, "rights-10", "not shown: the rollout: missing permission: get daemonrollouts.topsops.enflame.com in namespace kube-system")
	s.says(narrow.gcu("history", "rights", "-o", "json"), exitOK, `"name": "rights-10"`, `"notShown": [`)
}
