package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// gcu runs the built plugin with a kubeconfig, and fails unless its exit code is code
// and its output contains all words.
func (s *stage) gcu(ctx context.Context, t *testing.T, kubeconfig string, code int, words []string, args ...string) string {
	t.Helper()
	program, err := s.Project.Program("kubectl-gcu")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+t.TempDir())
	command.Stdout, command.Stderr = &said, &said
	got := 0
	if err := command.Run(); err != nil {
		ended, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Fatal(err)
		}
		got = ended.ExitCode()
	}
	if got != code {
		t.Fatalf("kubectl gcu %s exited with %d, want %d:\n%s", strings.Join(args, " "), got, code, said.String())
	}
	for _, w := range words {
		if !strings.Contains(said.String(), w) {
			t.Errorf("kubectl gcu %s does not print %q:\n%s", strings.Join(args, " "), w, said.String())
		}
	}
	return said.String()
}

// A user deploys, upgrades, pauses, resumes and rolls back with kubectl gcu.
func TestAPersonSteersAnUpgradeWithKubectlGCU(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t, s.nodes[0])
	name := s.name("plugged")
	gcu := func(code int, args []string, words ...string) string {
		t.Helper()
		return s.gcu(ctx, t, s.Kubeconfig, code, words, args...)
	}
	file := func(version string) string {
		path := filepath.Join(t.TempDir(), version+".yaml")
		text := "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata:\n  name: " + name +
			"\n  annotations: {topsops.enflame.com/update-strategy: AdvancedRollingUpdate, topsops.enflame.com/max-unavailable: \"1\"}\nspec:\n  gfd: {name: " + name + ", version: " + version + ", nodeSelector: {" + stageLabel + ": \"" + s.label + "\"}}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.kubectl(ctx, t, "create", "-f", file("v1"))
	t.Cleanup(func() { s.remove(context.WithoutCancel(ctx), t, gr) })
	gcu(0, []string{"status", name, "--watch", "--timeout", "4m"}, "Done", "gfd", "v1")
	s.shows(ctx, t, name, "known to be good", func(*topsv1.GcuResource) bool {
		var dro topsv1.DaemonRollout
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: name}, &dro)
		return err == nil && meta.IsStatusConditionTrue(dro.Status.Conditions, topsv1.RolloutComplete) && dro.Status.LastKnownGood != nil
	})
	if nodes := gcu(0, []string{"nodes", name}, "updated", "AtTarget"); strings.Count(nodes, " updated ") != stageNodes {
		t.Errorf("not every node is updated:\n%s", nodes)
	}

	before := s.podsOf(ctx, t, name)
	gcu(0, []string{"pause", name}, "is paused")
	gcu(0, []string{"upgrade", "-f", file("v2")}, "gfd.version: v1 -> v2")
	s.shows(ctx, t, name, "seen with v2", func(gr *topsv1.GcuResource) bool { return gr.Status.ObservedGeneration == gr.Generation })
	gcu(3, []string{"upgrade", "-f", file("v3"), "--wait", "--timeout", "5s"}, "gfd.version: v2 -> v3", "timed out after 5s")
	s.shows(ctx, t, name, "held at v3", func(gr *topsv1.GcuResource) bool {
		var dro topsv1.DaemonRollout
		var ds appsv1.DaemonSet
		key := client.ObjectKey{Namespace: "kube-system", Name: name}
		if s.Client.Get(ctx, key, &ds) != nil || s.Client.Get(ctx, key, &dro) != nil {
			return false
		}
		progress := meta.FindStatusCondition(dro.Status.Conditions, topsv1.RolloutProgressing)
		return gr.Status.ObservedGeneration == gr.Generation && strings.HasSuffix(ds.Spec.Template.Spec.Containers[0].Image, ":v3") &&
			ds.Status.ObservedGeneration == ds.Generation && dro.Status.HeldNodes == stageNodes && progress != nil && progress.Reason == topsv1.ReasonPaused
	})
	gcu(0, []string{"status", name}, "Waiting (Paused)", "kubectl gcu resume "+name)
	gcu(0, []string{"nodes", name, "--state", "held"}, "Paused", s.nodes[0])
	if left := survivors(before, s.podsOf(ctx, t, name)); left != stageNodes {
		t.Errorf("%d of %d pods are left under a pause", left, stageNodes)
	}
	gcu(0, []string{"resume", name}, "is no longer paused")
	gcu(0, []string{"status", name, "--watch", "--timeout", "4m"}, "GcuResource "+name+": Done", "6 of 6 updated")

	history := gcu(0, []string{"history", name}, "gfd.version: v2 -> v3", "gfd.version: v1 -> v2", "current")
	if strings.Count(history, "\n") != 4 {
		t.Errorf("the history does not have three specs:\n%s", history)
	}
	gcu(0, []string{"rollback", name, "--to", "1"}, "goes back to revision 1", "gfd.version: v3 -> v1")
	s.shows(ctx, t, name, "restored", func(gr *topsv1.GcuResource) bool {
		_, asked := gr.Annotations[topsv1.AnnotationRollbackTo]
		return !asked && gr.Spec.GFD.Version == "v1"
	})
	gcu(0, []string{"status", name, "--watch", "--timeout", "4m"}, "GcuResource "+name+": Done")
	gcu(0, []string{"report", name}, "# Upgrade of gr "+name, "| State | complete |", "gfd.version: v3 -> v1", "| Started |", "| Complete |", "| kube-system/"+name+" |")
	gcu(4, []string{"task", "retry", s.nodes[0], "driver_verify"}, s.nodes[0])
	gcu(0, []string{"support-bundle", "--file", filepath.Join(t.TempDir(), "bundle.tar.gz")}, "is written")
	s.viewer(ctx, t, name)
}

// viewer: a user with cluster role view can read, and errors name the missing permissions.
func (s *stage) viewer(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	viewer := s.name("viewer")
	s.create(ctx, t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: viewer}})
	s.create(ctx, t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: viewer},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: viewer}}})
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, "default/"+viewer, "")
	if err != nil {
		t.Fatal(err)
	}
	s.eventually(ctx, t, func() error { // the authorizer watches bindings
		_, err := s.Kubectl(ctx, "auth", "can-i", "list", "gcuresources.topsops.enflame.com", "--as=system:serviceaccount:default:"+viewer)
		return err
	})
	s.gcu(ctx, t, kubeconfig, 0, []string{"GcuResource " + name + ": Done"}, "status", name)
	s.gcu(ctx, t, kubeconfig, 0, []string{"gfd.version"}, "history", name)
	s.gcu(ctx, t, kubeconfig, 5, []string{"missing permission: list nodes cluster-wide"}, "nodes", name)
	s.gcu(ctx, t, kubeconfig, 5, []string{"missing permission: patch gcuresources.topsops.enflame.com"}, "pause", name)
}
