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
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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
	driver   = "enflame-gcu-driver"
	// changed is the DaemonSet whose template is not that of the first version, as CHANGELOG.md says: another operator replaces
	// its pods, in a rollout.
	changed = "enflame-gcu-docker-plugin"
	image   = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator"
	policy  = "short-soak"
	// componentPods selects the pods of all components.
	componentPods = "app.kubernetes.io/name in (enflame-node-feature-discovery,enflame-gcu-driver,enflame-gcu-docker-plugin,enflame-gcu-k8s-plugin,enflame-gcu-exporter,enflame-gcu-feature-discovery)"
	// older is the version of the first one.
	older = "v0.9.0"
	// olderPrograms is the folder with the programs of the first version.
	olderPrograms = "bin/older"
	// patience is for one step.
	patience = 4 * time.Minute
)

// fields are those of the components in a gr.
var fields = map[string]string{exporter: "exporter", driver: "driver"}

// site is a cluster with a helm program.
type site struct {
	*harness.Cluster
	t    *testing.T
	ctx  context.Context
	helm string
	// before is the chart of the first version that had one (make older), now that of the project.
	before, now string
	observer    *harness.Observer
	agents      *harness.Agents
}

// TestInstall: the operator is installed as its first version, upgraded and rolled back while nodes are in
// flight, and uninstalled. What one program upgrades by a light change, the other does by operations.
func TestInstall(t *testing.T) {
	s := newSite(t)
	for helm, components := range map[string][2]string{"helm3": {exporter, driver}, "helm4": {driver, exporter}} {
		t.Run(helm, func(t *testing.T) {
			s := *s
			s.t, s.ctx = t, t.Context()
			s.helm = s.Project.Path("bin", helm)
			s.tell(components[0], components[1])
		})
	}
}

func newSite(t *testing.T) *site {
	t.Helper()
	log.SetLogger(logr.Discard())
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
	// Both images have one name: the earlier one gets that of its version.
	check(t, cluster.LoadImages(t.Context(), os.Stderr, project.Path("bin", "older", "operator.tar")))
	_, err = cluster.OnNode(t.Context(), host, nil, "ctr", "--namespace=k8s.io", "images", "tag", image+":dev", image+":"+older)
	check(t, err)
	check(t, cluster.LoadImages(t.Context(), os.Stderr, project.Path("bin", "images", "operator.tar"), project.Path("bin", "images", "standins.tar")))
	s := &site{Cluster: cluster, t: t, ctx: t.Context(), now: project.Path("charts", "gcu-operator"), before: project.Path("bin", "older", "gcu-operator")}
	s.kubectl("label", "node", host, "feature.node.kubernetes.io/pci-1200_1e36.present-")
	return s
}

func (s *site) nodes() []string {
	names := make([]string, gcuNodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%04d", i+1)
	}
	return names
}

// tell is the story of one helm program: the operator is upgraded during a rollout of the first component, back
// and up again during rollouts of the second.
func (s *site) tell(first, second string) {
	s.t.Setenv("PROGRAMS", olderPrograms)
	s.run("install", "gcu-operator", s.before, "--wait", "--set=gcuResource.deploy=true,gcuResource.driver.notDeploy=false,image.tag="+older,
		"--set-string=gcuResource.annotations.topsops\\.enflame\\.com/update-strategy=AdvancedRollingUpdate",
		"--set-string=gcuResource.annotations.topsops\\.enflame\\.com/upgrade-policy="+policy, "--set-string=nodeSelector.kubernetes\\.io/hostname="+host)
	var err error
	s.agents, err = s.StartAgents(s.ctx, "1.0.0", s.nodes()...)
	check(s.t, err)
	defer func() { check(s.t, s.agents.Stop()) }()
	s.eventually("the gr shows 6/6 Running", s.isRunning)
	check(s.t, client.IgnoreAlreadyExists(s.Client.Create(s.ctx, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: topsv1.UpgradePolicySpec{Validation: &topsv1.ValidationPolicy{SoakSeconds: 1}}})))
	s.observer, err = harness.Observe(s.ctx, s.Cluster, componentPods)
	check(s.t, err)

	upgrade := []string{"upgrade", "gcu-operator", s.now, "--reuse-values", "--set=image.tag=dev"}
	s.inTheMiddleOfARollout(first, "v2", "bin", upgrade...)
	s.kubectl("get", "upgradeplans") // the first version had none
	s.inTheMiddleOfARollout(second, "v2", olderPrograms, "rollback", "gcu-operator", "1")
	s.inTheMiddleOfARollout(second, "v3", "bin", upgrade...)
	s.inQuietTimes(olderPrograms, "rollback", "gcu-operator", "1")
	s.inQuietTimes("bin", upgrade...)
	s.isFollowed()

	s.run("uninstall", "gcu-operator")
	s.eventually("what is left is what docs/install.md says", s.isGone) // the pod of the manager takes a while to end
}

// inTheMiddleOfARollout has helm change the operator while nodes are in flight to a new version of a component, and
// then restarts the node agents with the programs of a folder. No more nodes are unavailable than the budget
// allows, and no pod is replaced for it: only those of the exporter are, if that is the component.
func (s *site) inTheMiddleOfARollout(component, version, programs string, helm ...string) {
	s.t.Helper()
	before, manager := s.pods(), s.manager()
	s.observer.Reset()
	s.set(component, version)
	s.eventually("a node is done and another is in flight", func() error {
		status := s.rollout()
		if len(status.InFlight) == 0 || status.Updated == 0 || status.Updated == status.Total {
			return fmt.Errorf("%d nodes are in flight, %d of %d updated", len(status.InFlight), status.Updated, status.Total)
		}
		return nil
	})
	s.keep(component)
	s.run(helm...)
	s.t.Setenv("PROGRAMS", programs)
	check(s.t, s.agents.Restart(s.Cluster))
	s.eventually("the rollout of "+component+" "+version+" is complete", s.isComplete)
	s.eventually("another manager runs", func() error {
		if s.manager() == manager {
			return errors.New("it is the one of before")
		}
		return nil
	})
	after := s.pods()
	for name, uid := range before {
		if component == exporter && after[name] != uid && !strings.HasPrefix(name, exporter+"-") {
			s.t.Errorf("pod %s of another component was replaced", name)
		}
	}
	if most := s.observer.Most(); most > 1 {
		s.t.Errorf("%d nodes were unavailable at once", most)
	}
}

// inQuietTimes has helm change the operator, and restarts the node agents, while no node is in flight: once the
// other manager has applied all components, no pod of any was replaced or restarted, and none is due to be.
func (s *site) inQuietTimes(programs string, helm ...string) {
	s.t.Helper()
	revisions := func() string {
		return s.kubectl("get", "controllerrevisions", "-n", "kube-system", "-l", componentPods, "-o", "name")
	}
	pods, due, manager, led := s.pods(), revisions(), s.manager(), s.lease()
	s.run(helm...)
	s.eventually("another manager leads", func() error {
		if holder := s.lease().HolderIdentity; holder == nil || *holder == "" || *holder == *led.HolderIdentity {
			return errors.New("none does")
		}
		return nil
	})
	s.t.Logf("the manager before was told to end at %s, the other leads since %s", s.kubectl("get", "events", "-n", "kube-system", "-o", "jsonpath={.items[*].lastTimestamp}",
		"--field-selector=reason=Killing,involvedObject.name="+strings.TrimPrefix(strings.TrimSpace(manager), "pod/")), s.lease().AcquireTime)
	s.t.Setenv("PROGRAMS", programs)
	check(s.t, s.agents.Restart(s.Cluster))
	s.kubectl("delete", "service", "-n", "kube-system", exporter)
	s.eventually("the manager has applied the components", func() error {
		_, err := s.Kubectl(s.ctx, "get", "service", "-n", "kube-system", exporter)
		return errors.Join(err, s.isRunning())
	})
	if diff := cmp.Diff(pods, s.pods()); diff != "" {
		s.t.Errorf("pods of components were replaced or restarted by helm %s:\n%s", helm[0], diff)
	}
	if diff := cmp.Diff(due, revisions()); diff != "" {
		s.t.Errorf("pods of components are to be replaced by helm %s:\n%s", helm[0], diff)
	}
	s.eventually("the rollout of what has changed is complete", s.isComplete)
}

// isComplete returns nil if all nodes are updated, and none is in flight.
func (s *site) isComplete() error {
	if status := s.rollout(); status.Updated != status.Total || len(status.InFlight) > 0 {
		return fmt.Errorf("%d of %d nodes are updated, %d in flight", status.Updated, status.Total, len(status.InFlight))
	}
	return s.isRunning()
}

// lease returns who leads.
func (s *site) lease() coordinationv1.LeaseSpec {
	s.t.Helper()
	var lease coordinationv1.Lease
	check(s.t, s.Client.Get(s.ctx, client.ObjectKey{Namespace: "kube-system", Name: "gcu-operator.topsops.enflame.com"}, &lease))
	return lease.Spec
}

// keep writes what the manager has stored, while programs of the first version run, into the folder STORED:
// the fixtures in test/stored/testdata.
func (s *site) keep(component string) {
	s.t.Helper()
	folder := os.Getenv("STORED")
	if folder == "" || os.Getenv("PROGRAMS") != olderPrograms {
		return
	}
	text := s.kubectl("get", "gr,dro,nu,upgradepolicies,controllerrevisions", "--all-namespaces", "--output=yaml")
	check(s.t, os.WriteFile(filepath.Join(folder, component+".yaml"), []byte(text), 0o600))
}

// set changes the version of a component of the gr.
func (s *site) set(component, version string) {
	s.t.Helper()
	s.kubectl("patch", "gr", grName, "--type=merge", "-p", fmt.Sprintf(`{"spec":{%q:{"version":%q}}}`, fields[component], version))
}

func (s *site) rollout() topsv1.DaemonRolloutStatus {
	s.t.Helper()
	var dro topsv1.DaemonRollout
	check(s.t, s.Client.Get(s.ctx, client.ObjectKey{Namespace: "kube-system", Name: grName}, &dro))
	return dro.Status
}

// isFollowed rolls out a version whose pods crash, mends it, upgrades the driver, and removes the exporter, as tools see it.
func (s *site) isFollowed() {
	s.t.Helper()
	for _, step := range []struct {
		component, version string
		want               kstatus.Status
	}{
		{exporter, "v4" + harness.CrashingSuffix, kstatus.FailedStatus},
		{exporter, "v5", kstatus.CurrentStatus},
		{driver, "v4", kstatus.CurrentStatus},
		{exporter, "", kstatus.CurrentStatus},
	} {
		f := s.follow(step.component)
		if step.version == "" {
			s.kubectl("patch", "gr", grName, "--type=merge", "-p", fmt.Sprintf(`{"spec":{%q:null}}`, fields[step.component]))
		} else {
			s.set(step.component, step.version)
		}
		f.finish(step.want)
		s.isSeenAs(step.want)
	}
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

// pods returns the UIDs of the pods of components that have not changed, with how often their containers were restarted, by their names.
func (s *site) pods() map[string]string {
	s.t.Helper()
	var list corev1.PodList
	selector, err := labels.Parse(componentPods)
	check(s.t, err)
	check(s.t, s.Client.List(s.ctx, &list, client.InNamespace("kube-system"), client.MatchingLabelsSelector{Selector: selector}))
	if least := 5 * gcuNodes; len(list.Items) < least {
		s.t.Fatalf("%d pods of components, want at least %d", len(list.Items), least)
	}
	found := map[string]string{}
	for _, pod := range list.Items {
		if strings.HasPrefix(pod.Name, changed+"-") {
			continue
		}
		found[pod.Name] = string(pod.UID)
		for _, c := range pod.Status.ContainerStatuses {
			found[pod.Name] += fmt.Sprintf(" %s %d", c.Name, c.RestartCount)
		}
	}
	return found
}

// manager returns the name of the pod of the manager.
func (s *site) manager() string {
	s.t.Helper()
	return s.kubectl("get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=gcu-operator", "-o", "name")
}

// isRunning returns nil if all components run, as the gr says.
func (s *site) isRunning() error { return s.shows("6/6") }

// shows returns nil if the gr says that so many components run.
func (s *site) shows(ready string) error {
	var gr topsv1.GcuResource
	if err := s.Client.Get(s.ctx, client.ObjectKey{Name: grName}, &gr); err != nil {
		return err
	}
	if gr.Status.ObservedGeneration != gr.Generation || gr.Status.ReadyResource != ready || gr.Status.Phase != topsv1.PhaseRunning {
		return fmt.Errorf("%s %s of generation %d, it has %d", gr.Status.ReadyResource, gr.Status.Phase, gr.Status.ObservedGeneration, gr.Generation)
	}
	return nil
}

// isGone returns nil if what is left is what docs/install.md says.
func (s *site) isGone() error {
	s.t.Helper()
	left := s.kubectl("get", "all,sa,role,rolebinding,clusterrole,clusterrolebinding,crd,configmap,secret,lease,pdb,networkpolicy,gr,dro,nu,"+
		"validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding,"+
		"validatingwebhookconfiguration,mutatingwebhookconfiguration", "--all-namespaces", "--output=name")
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
	command.Dir = s.Project.Root
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
