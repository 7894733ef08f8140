package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/view"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// fleet makes a gr with a DaemonSet, a node that is updated and one that failed.
func (s *site) fleet(name string) {
	s.t.Helper()
	gr := s.gr(name, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	labels := map[string]string{"app": name}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name,
		Labels:          map[string]string{topsv1.LabelGcuResource: name, topsv1.LabelManagedBy: topsv1.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: "GcuResource", Name: name, UID: gr.UID, Controller: ptr.To(true)}}},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{NodeSelector: map[string]string{"fleet": name}, Containers: []corev1.Container{{
				Name: "main", Image: "app:1", Env: []corev1.EnvVar{{Name: "DB_PASSWORD", Value: "hunter2"}}}}}}},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 1}}
	s.create(set)
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
	var one view.Status
	if err := json.Unmarshal([]byte(s.says(s.gcu("status", "shown", "-o", "json"), exitOK).out), &one); err != nil || one.Outcome.State != view.Stopped || len(one.Nodes) != 1 {
		t.Errorf("-o json: %v, %+v", err, one)
	}
	var all list[view.Status]
	if err := yaml.Unmarshal([]byte(s.says(s.gcu("status", "-o", "yaml"), exitOK).out), &all); err != nil || len(all.Items) != 1 || all.Items[0].Name != "shown" {
		t.Errorf("-o yaml: %v, %+v", err, all)
	}
	a := s.says(s.gcu("nodes"), exitOK, "shown-1   updated", "shown-2   failed")
	if strings.Count(a.out, "\n") != 3 {
		t.Errorf("more than two nodes:\n%s", a.out)
	}
	a = s.says(s.gcu("nodes", "shown", "--state", "failed", "-o", "json"), exitOK)
	var nodes list[view.Node]
	if err := json.Unmarshal([]byte(a.out), &nodes); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "shown-2" || !nodes.Items[0].Stuck {
		t.Errorf("%v: %s", err, a.out)
	}
	s.says(s.gcu("nodes", "shown", "--state", "pending"), exitOK, "no node of gr shown is pending")
	s.says(s.gcu("status", "shown", "--watch", "--timeout", "20s"), exitNotYet, "Stopped: 1 of 2 updated", "GcuResource shown: Stopped", "Halted: 1 node failed")
	s.says(s.gcu("status", "shown", "-n", "default"), exitOK, "GcuResource shown: Done") // no rollout is there
	s.gr("second")
	s.says(s.gcu("pause"), exitUsage, "there are 2 grs: say which (second, shown)")
	s.says(s.gcu("version", "-o", "json"), exitOK, `"kubernetes": "v1.`, "deployments.apps \\\"gcu-operator\\\" not found")
	s.says(s.gcu("__complete", "pause", ""), exitOK, "second", "shown")
	s.says(s.gcu("__complete", "nodes", "--state", ""), exitOK, "in-flight")
}

// as is the plugin of a user who may do what the rules say.
func (s *site) as(name string, rules ...rbacv1.PolicyRule) *site {
	s.t.Helper()
	user, err := apiserver.Shared(s.t).AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	s.create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}})
	other := *s
	other.kubeconfig = kubeconfigOf(s.t, user.Config())
	s.eventually("the right", func() bool { return other.gcu("status").code != exitForbidden })
	return &other
}

func TestAMissingRightIsSaid(t *testing.T) {
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
	s.says(viewer.gcu("nodes", "rights"), exitForbidden, "missing right: list nodes cluster-wide; kubectl auth can-i list nodes -A")
	s.says(viewer.gcu("history", "rights"), exitForbidden, "missing right: list controllerrevisions.apps in namespace kube-system; kubectl auth can-i list controllerrevisions.apps -n kube-system")
	s.says(viewer.gcu("pause", "rights"), exitForbidden, "missing right: patch gcuresources.topsops.enflame.com cluster-wide")
	s.says(viewer.gcuWith(t.Context(), grFile("rights", "2"), "upgrade", "-f", "-"), exitForbidden, "missing right: patch gcuresources")

	narrow := s.as("narrow", rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"gcuresources"}, Verbs: []string{"get", "list"}})
	s.says(narrow.gcu("status", "rights"), exitOK, "COMPONENT", "not shown: the rollout: missing right: get daemonrollouts.topsops.enflame.com in namespace kube-system")
}

func TestTheSupportBundleHasEverythingButSecrets(t *testing.T) {
	s := newSite(t)
	s.fleet("bundled")
	var gr topsv1.GcuResource
	if err := s.Get(t.Context(), client.ObjectKey{Name: "bundled"}, &gr); err != nil {
		t.Fatal(err)
	}
	gr.Spec.Driver.Env = []corev1.EnvVar{{Name: "KEY_OF_SITE", Value: "hunter2"}, {Name: "WITH_REBOOT", Value: "false"}}
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, "kubectl.kubernetes.io/last-applied-configuration", "hunter2")
	if err := s.Update(t.Context(), &gr); err != nil {
		t.Fatal(err)
	}
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bundled"}, StringData: map[string]string{"x": "hunter2"}})
	s.revision(&gr, 1, "1.0") // with that env
	s.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "manager", Labels: map[string]string{nameLabel: operatorName}},
		Spec: corev1.PodSpec{NodeName: "bundled-1", TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "manager", Image: "m:1"}}}})
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	s.says(s.gcu("support-bundle", "--file", file), exitOK, file+" is written", "could not be read, see errors.txt")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	files := untar(t, file)
	for name, content := range files {
		if strings.Contains(content, "hunter2") {
			t.Errorf("a secret is in %s:\n%s", name, content)
		}
	}
	for name, want := range map[string]string{
		"objects/gcuresource.yaml": "name: bundled", "objects/daemonrollout.yaml": "CrashLooping", "objects/nodeupgrade.yaml": "", "objects/upgradepolicy.yaml": "",
		"objects/daemonset.yaml": "name: DB_PASSWORD", "objects/deployment.yaml": "", "objects/pod.yaml": "name: bundled-1", "objects/node.yaml": "name: bundled-2",
		"objects/controllerrevision.yaml": "name: bundled-10", "objects/event.yaml": "reason: Halted", "status/bundled.txt": "bundled-2   failed",
		"versions.yaml": "kubernetes: v1.", "errors.txt": "logs/manager/manager.log",
	} {
		content, is := files[name]
		if !is || !strings.Contains(content, want) {
			t.Errorf("%s is there: %v, and should tell of %q:\n%s", name, is, want, content)
		}
	}
	if !strings.Contains(files["objects/gcuresource.yaml"], `value: "false"`) || !strings.Contains(files["objects/controllerrevision.yaml"], "name: bundled-new") {
		t.Error("what is no secret is gone")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".gcu-support-*")); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// untar reads the files of a tarball by their names below its folder.
func untar(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(content)
	}
}

func TestAgentsOfNodesInTroubleComeFirst(t *testing.T) {
	f := &collector{limits: logLimits{agents: 2}, worst: []string{"n3"}}
	var pods []corev1.Pod
	for _, node := range []string{"n2", "n1", "n3"} {
		pods = append(pods, corev1.Pod{Spec: corev1.PodSpec{NodeName: node}})
	}
	var names []string
	for _, p := range f.chosen(pods) {
		names = append(names, p.Spec.NodeName)
	}
	if !slices.Equal(names, []string{"n3", "n1"}) {
		t.Errorf("chosen are %v", names)
	}
}
