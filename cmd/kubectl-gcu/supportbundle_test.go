package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

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
	t.Setenv("TMPDIR", filepath.Dir(file))
	s.says(s.gcu("support-bundle", "--file", file), exitOK, file+" is written", "could not be read, see errors.txt")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	piped := s.says(s.gcu("support-bundle", "--file", "-"), exitOK, "could not be read, see errors.txt")
	if len(fixture.FilesOf(t, strings.NewReader(piped.out))) == 0 {
		t.Error("standard output has no files")
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
	for _, temporary := range []string{".gcu-support-*", "kubectl-gcu-*"} {
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), temporary)); err != nil || len(left) > 0 {
			t.Errorf("%v are left, %v", left, err)
		}
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
	files := map[string]string{}
	for path, content := range fixture.FilesOf(t, f) {
		_, name, _ := strings.Cut(path, "/")
		files[name] = content
	}
	return files
}

func TestAgentsOfNodesInTroubleComeFirst(t *testing.T) {
	f := &collector{limits: logLimits{agents: 2}, worst: map[string]bool{"n3": true}}
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
