//go:build install

package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	grName = "enflame-gcu-resource"
	// host is the real node, where manager and hooks run; gcuNodes are simulated.
	host     = "real-1"
	gcuNodes = 5
	exporter = "enflame-gcu-exporter"
	// patience is for one step.
	patience = 4 * time.Minute
)

// site is a cluster with a helm program.
type site struct {
	*harness.Cluster
	t    *testing.T
	ctx  context.Context
	helm string
	// before is the chart of an earlier version, now that of the project.
	before, now string
	observer    *harness.Observer
}

// TestInstall: the operator is installed, upgraded and rolled back in the middle of a rollout, and uninstalled.
func TestInstall(t *testing.T) {
	log.SetLogger(logr.Discard())
	s := newSite(t)
	for _, helm := range []string{"helm3", "helm4"} {
		t.Run(helm, func(t *testing.T) {
			s := *s
			s.t, s.ctx = t, t.Context()
			s.helm = s.Project.Path("bin", helm)
			s.tell()
		})
	}
}

func newSite(t *testing.T) *site {
	t.Helper()
	project, err := harness.FindProject()
	check(t, err)
	dir, err := os.MkdirTemp("", "gcu-install-")
	check(t, err)
	cluster, err := harness.StartCluster(t.Context(), project, filepath.Join(dir, "cluster"), os.Stderr,
		"--real-nodes", "1", "--nodes", fmt.Sprint(gcuNodes))
	check(t, err)
	t.Cleanup(func() {
		check(t, cluster.Stop(os.Stderr))
		check(t, os.RemoveAll(dir))
	})
	check(t, cluster.LoadImages(t.Context(), os.Stderr, project.Path("bin", "images", "operator.tar"), project.Path("bin", "images", "standins.tar")))
	s := &site{Cluster: cluster, t: t, ctx: t.Context(), now: project.Path("charts", "gcu-operator"), before: filepath.Join(dir, "before")}
	check(t, os.CopyFS(s.before, os.DirFS(s.now)))
	// An earlier version, whose CRD had no short name.
	s.replace("Chart.yaml", "version: 0.0.0-dev", "version: 0.0.0-before")
	s.replace("templates/crd-topsops.enflame.com-upgradepolicies.yaml", "    shortNames:\n    - gup\n", "")
	s.kubectl("label", "node", host, "feature.node.kubernetes.io/pci-1200_1e36.present-")
	return s
}

// replace changes the earlier chart.
func (s *site) replace(file, from, to string) {
	s.t.Helper()
	path := filepath.Join(s.before, file)
	text, err := os.ReadFile(path)
	check(s.t, err)
	changed := strings.Replace(string(text), from, to, 1)
	if changed == string(text) {
		s.t.Fatalf("%s has no %q", file, from)
	}
	check(s.t, os.WriteFile(path, []byte(changed), 0o644))
}

func (s *site) nodes() []string {
	names := make([]string, gcuNodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%04d", i+1)
	}
	return names
}

// tell is the story of one helm program.
func (s *site) tell() {
	s.run("install", "gcu-operator", s.before, "--wait", "--set=gcuResource.deploy=true",
		"--set-string=gcuResource.annotations.topsops\\.enflame\\.com/update-strategy=AdvancedRollingUpdate", "--set-string=nodeSelector.kubernetes\\.io/hostname="+host)
	agents, err := s.StartAgents(s.ctx, "1.0.0", s.nodes()...)
	check(s.t, err)
	defer func() { check(s.t, agents.Stop()) }()
	s.eventually("the gr shows 5/5 Running", func() error { return s.isRunning("latest") })
	s.observer, err = harness.Observe(s.ctx, s.Cluster, "app.kubernetes.io/name")
	check(s.t, err)
	if output, err := s.Kubectl(s.ctx, "get", "gup"); err == nil {
		s.t.Errorf("the CRD of the earlier chart has a short name: %s", output)
	}

	s.inTheMiddleOfARollout("v2", func() { s.run("upgrade", "gcu-operator", s.now, "--reuse-values", "--set=extraArgs={-v=4}") })
	s.kubectl("get", "gup")
	s.inTheMiddleOfARollout("v3", func() { s.run("rollback", "gcu-operator", "1") })
	s.badVersion()

	s.run("uninstall", "gcu-operator")
	s.eventually("what is left is what docs/install.md says", s.isGone) // the pod of the manager takes a while to end
}

// inTheMiddleOfARollout does something to the operator while nodes are in flight. No pod is replaced for it, and
// no more nodes are unavailable than the budget allows.
func (s *site) inTheMiddleOfARollout(version string, do func()) {
	s.t.Helper()
	before, manager := s.pods(), s.manager()
	s.observer.Reset()
	f := s.follow()
	s.kubectl("patch", "gr", grName, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"exporter":{"version":%q}}}`, version))
	s.eventually("a node is done and another is in flight", func() error {
		var dro topsv1.DaemonRollout
		if err := s.Client.Get(s.ctx, client.ObjectKey{Namespace: "kube-system", Name: grName}, &dro); err != nil {
			return err
		}
		if status := dro.Status; len(status.InFlight) == 0 || status.Updated == 0 {
			return fmt.Errorf("%d nodes are in flight, %d updated", len(status.InFlight), status.Updated)
		}
		return nil
	})
	s.isSeenAs(kstatus.InProgressStatus)
	do()
	s.eventually("the rollout to "+version+" is complete", func() error { return s.isRunning(version) })
	f.finish(kstatus.CurrentStatus)
	s.isSeenAs(kstatus.CurrentStatus)
	s.eventually("another manager runs", func() error {
		if s.manager() == manager {
			return errors.New("it is the one of before")
		}
		return nil
	})
	for name, uid := range s.pods() {
		if was, found := before[name]; found && was != uid {
			s.t.Errorf("pod %s was replaced", name)
		}
	}
	for name := range before {
		if _, found := s.pods()[name]; !found && !strings.HasPrefix(name, exporter+"-") {
			s.t.Errorf("pod %s of another component was replaced", name)
		}
	}
	if most := s.observer.Most(); most > 1 {
		s.t.Errorf("%d nodes were unavailable at once", most)
	}
}

// badVersion rolls out a version whose pods crash, and mends it.
func (s *site) badVersion() {
	s.t.Helper()
	end, err := s.Crash(s.ctx, "v4")
	defer func() { check(s.t, end()) }()
	check(s.t, err)
	f := s.follow()
	s.kubectl("patch", "gr", grName, "--type=merge", "-p", `{"spec":{"exporter":{"version":"v4"}}}`)
	f.finish(kstatus.FailedStatus)
	s.isSeenAs(kstatus.FailedStatus)
	f = s.follow()
	s.kubectl("patch", "gr", grName, "--type=merge", "-p", `{"spec":{"exporter":{"version":"v5"}}}`)
	s.eventually("the rollout of the mended version is complete", func() error { return s.isRunning("v5") })
	f.finish(kstatus.CurrentStatus)
}

// isSeenAs: Flux and Helm 4 see the gr so.
func (s *site) isSeenAs(want kstatus.Status) {
	s.t.Helper()
	gr := &unstructured.Unstructured{}
	gr.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	check(s.t, s.Client.Get(s.ctx, client.ObjectKey{Name: grName}, gr))
	seen, err := kstatus.Compute(gr)
	check(s.t, err)
	if seen.Status != want {
		s.t.Errorf("the gr is seen as %s, want %s: %s", seen.Status, want, seen.Message)
	}
}

// pods returns the UIDs of the pods of components by their names.
func (s *site) pods() map[string]string {
	s.t.Helper()
	var list corev1.PodList
	check(s.t, s.Client.List(s.ctx, &list, client.InNamespace("kube-system"), client.HasLabels{"topsops.enflame.com/component"}))
	found := map[string]string{}
	for _, pod := range list.Items {
		found[pod.Name] = string(pod.UID)
	}
	return found
}

// manager returns the name of the pod of the manager.
func (s *site) manager() string {
	s.t.Helper()
	return s.kubectl("get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=gcu-operator", "-o", "name")
}

func (s *site) isRunning(version string) error {
	var gr topsv1.GcuResource
	if err := s.Client.Get(s.ctx, client.ObjectKey{Name: grName}, &gr); err != nil {
		return err
	}
	if gr.Spec.Exporter.Version != version || gr.Status.ObservedGeneration != gr.Generation || gr.Status.ReadyResource != "5/5" || gr.Status.Phase != topsv1.PhaseRunning {
		return fmt.Errorf("exporter %s, %s %s of generation %d, it has %d", gr.Spec.Exporter.Version, gr.Status.ReadyResource, gr.Status.Phase, gr.Status.ObservedGeneration, gr.Generation)
	}
	return nil
}

// isGone returns nil if what is left is what docs/install.md says.
func (s *site) isGone() error {
	s.t.Helper()
	left := s.kubectl("get", "all,sa,role,rolebinding,clusterrole,clusterrolebinding,crd,configmap,secret,lease,pdb,networkpolicy,gr,dro,nu,"+
		"validatingadmissionpolicy,validatingadmissionpolicybinding", "--all-namespaces", "--output=name")
	var names []string
	for name := range strings.Lines(left) {
		name = strings.TrimSpace(name)
		if ours := strings.Contains(name, "gcu") || strings.Contains(name, "enflame"); ours && !strings.HasPrefix(name, "nodeupgrade.") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	want := []string{"configmap/gcu-operator-ca",
		"customresourcedefinition.apiextensions.k8s.io/daemonrollouts.topsops.enflame.com",
		"customresourcedefinition.apiextensions.k8s.io/gcuresourcerecreations.topsops.enflame.com",
		"customresourcedefinition.apiextensions.k8s.io/gcuresources.topsops.enflame.com",
		"customresourcedefinition.apiextensions.k8s.io/nodeupgrades.topsops.enflame.com",
		"customresourcedefinition.apiextensions.k8s.io/upgradeplans.topsops.enflame.com",
		"customresourcedefinition.apiextensions.k8s.io/upgradepolicies.topsops.enflame.com",
		"lease.coordination.k8s.io/gcu-operator.topsops.enflame.com", "secret/gcu-operator-ca"}
	if !slices.Equal(names, want) {
		return fmt.Errorf("left are\n%s\nwant\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

// run runs helm, which must succeed.
func (s *site) run(args ...string) {
	s.t.Helper()
	command := exec.CommandContext(s.ctx, s.helm, append(args, "--namespace=kube-system", "--timeout=4m")...)
	home := s.t.TempDir()
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	begin := time.Now()
	output, err := command.CombinedOutput()
	s.t.Logf("%6.1fs  helm %s", time.Since(begin).Seconds(), strings.Join(args, " "))
	if err != nil {
		s.Show(s.ctx, s.t, shown...)
		s.t.Fatalf("helm %s: %v\n%s", args[0], err, output)
	}
}

func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	output, err := s.Kubectl(s.ctx, args...)
	check(s.t, err)
	return output
}

func (s *site) eventually(what string, is func() error) {
	s.t.Helper()
	s.Await(s.ctx, s.t, patience, what, is, shown...)
}

// shown is what a failed test shows.
var shown = [][]string{
	{"get", "gr,dro,nu,jobs,pods", "--all-namespaces", "--output=wide"}, {"get", "events", "-n", "kube-system"},
	{"logs", "--namespace=kube-system", "deployment/gcu-operator", "--tail=40"}, {"logs", "--namespace=kube-system", "-l", "app.kubernetes.io/name=gcu-operator-hooks"},
}
