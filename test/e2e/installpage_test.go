package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// first is a cluster on which a person follows the README, from the objects of the operator to their removal.
type first struct {
	*drivers
	gr *topsv1.GcuResource
}

// The manifests are those that are shipped. The manager runs beside the cluster, because no program runs in its pods.
func TestThePagesInstallUpgradeAndRemove(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	const others = stageLabel + "!=1"
	s.kubectl(ctx, t, "label", "nodes", "--selector="+others, gcuLabel+"-")
	t.Cleanup(func() {
		s.kubectl(context.WithoutCancel(ctx), t, "label", "nodes", "--overwrite", "--selector="+others, gcuLabel+"=true")
	})
	c := s.pageOf(t, "docs/install.md", "Node agent rights", nil)
	c.in = s.Project.Root
	c.block(ctx)
	c = s.pageOf(t, "docs/install.md", "The image", nil)
	c.in = s.Project.Root
	c.says(c.block(ctx), "deployment.apps/gcu-operator serverside-applied")
	c.block(ctx)
	for _, object := range []client.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "gcu-operator"}}, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "gcu-node-agent"}}} {
		object.SetNamespace("kube-system")
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			t.Error(err)
		}
		if text := fmt.Sprintf("%+v", object); !strings.Contains(text, "registry.example.com/gcu-operator:dev") {
			t.Errorf("the image of the page is not in %s", text)
		}
	}
	manager := s.startManager(ctx, t, "--metrics-secure=true")

	c = s.pageOf(t, "README.md", "Install", nil)
	c.in = s.Project.Root
	c.next(ctx)
	c.next(ctx)
	c.says(c.next(ctx), "enflame-gcu-resource", "5/5")
	f := &first{drivers: &drivers{stage: s, t: t, name: "enflame-gcu-resource"}}
	f.upgrades(ctx)

	c = s.pageOf(t, "docs/install.md", "Remove it", nil)
	c.in = s.Project.Root
	c.next(ctx)
	s.nothingLeft(ctx, t)
	if err := manager.Stop(); err != nil {
		t.Error(err)
	}
	c.block(ctx)
	left := s.kubectl(ctx, t, "get", "--namespace=kube-system", "--output=name", "crd,deployments,daemonsets,services,networkpolicies,validatingadmissionpolicies,secrets")
	for _, name := range strings.Fields(left) {
		if strings.Contains(name, "gcu") && !strings.Contains(name, "rest-api") || strings.Contains(name, "topsops") {
			t.Errorf("%s is left", name)
		}
	}
	if err := s.Install(ctx); err != nil { // for the stories after this one
		t.Error(err)
	}
}

// upgrades follows the section about the first upgrade: to 1.1.0, to 1.2.0, and back.
func (f *first) upgrades(ctx context.Context) {
	f.t.Helper()
	const exporter = "enflame-gcu-exporter"
	observer, err := harness.Observe(ctx, f.Cluster, "app.kubernetes.io/name="+exporter)
	if err != nil {
		f.t.Fatal(err)
	}
	c := f.pageOf(f.t, "README.md", "First upgrade", map[string]string{"kubectl get dro -A -w": "timeout 3 kubectl get dro -A -w || test $? = 124"})
	c.next(ctx)
	c.next(ctx)
	c.next(ctx)
	c.says(c.next(ctx), f.name, "AdvancedRollingUpdate")
	f.has(ctx, exporter, "1.1.0")
	atMost(f.t, observer, 2)

	f.gr = f.shows(ctx, f.t, f.name, "at 1.1.0", func(gr *topsv1.GcuResource) bool { return gr.Spec.Exporter.Version == "1.1.0" })
	wanted := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind}, ObjectMeta: metav1.ObjectMeta{Name: f.name}, Spec: f.gr.Spec}
	wanted.Spec.Exporter.Version = "1.2.0"
	(&mission{drivers: f.drivers}).write(filepath.Join(c.dir, "gr.yaml"), wanted)
	c.says(c.next(ctx), "1.2.0", f.nodes[0], fmt.Sprint(stageNodes, " nodes"))
	c.next(ctx)
	f.hasVersion(ctx, exporter, "1.2.0")
	c.says(c.next(ctx), "exporter.version: 1.2.0 -> 1.1.0")
	f.has(ctx, exporter, "1.1.0")
}

// has waits until the rollout is complete with a version of the exporter on all nodes.
func (f *first) has(ctx context.Context, exporter, version string) {
	f.t.Helper()
	f.shows(ctx, f.t, f.name, "at "+version, func(gr *topsv1.GcuResource) bool {
		return gr.Spec.Exporter.Version == version && gr.Status.ObservedGeneration == gr.Generation && gr.Status.Phase == topsv1.PhaseRunning
	})
	f.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == r.Total })
	f.hasVersion(ctx, exporter, version)
}

// A version fails on two nodes: the section says why the upgrade is stuck.
func TestThePageSaysWhyAnUpgradeIsStuck(t *testing.T) {
	s, ctx := enter(t)
	m, _ := s.newPaged(ctx, t, "page-stuck", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(2))})
	m.upgradeOf(ctx, "gfd", s.crashing())
	var failed []string
	m.reaches(ctx, "halted", func(r *topsv1.DaemonRolloutStatus) bool {
		failed = nil
		for _, n := range r.Failed {
			failed = append(failed, n.Node)
		}
		return len(failed) == 2 && meta.IsStatusConditionTrue(r.Conditions, topsv1.RolloutHalted)
	})
	c := s.pageOf(t, "README.md", "Why is it stuck?", map[string]string{"enflame-gcu-resource": m.name, "kubectl gcu nodes": "kubectl gcu nodes " + m.name,
		"kubectl gcu dashboard": "timeout 3 kubectl gcu dashboard || test $? = 124"})
	c.says(c.next(ctx), append(failed, m.name, "Stopped (Halted)")...)
	c.says(c.next(ctx), "http://127.0.0.1:")
	c.says(c.next(ctx), append(failed, "failed")...)
	c.says(c.next(ctx), "Degraded", m.name)
}

// What the pages grant, and allow, is granted and allowed.
func TestThePageOfInstallationGrantsRights(t *testing.T) {
	s, ctx := enter(t)
	may := func(who string, what ...string) error {
		_, err := s.Kubectl(ctx, append([]string{"auth", "can-i", who}, what...)...)
		return err
	}
	operates := []string{"patch", "gcuresources.topsops.enflame.com", "--as=somebody"}
	c := s.pageOf(t, "docs/install.md", "Roles of people", nil)
	if may("--as-group=on-call", operates...) == nil {
		t.Error("on-call may operate before")
	}
	c.block(ctx)
	t.Cleanup(func() { s.kubectl(context.WithoutCancel(ctx), t, "delete", "clusterrolebinding", "gcu-operate") })
	s.eventually(ctx, t, func() error { return may("--as-group=on-call", operates...) })

	secret := s.name("registry")
	s.create(ctx, t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: secret}})
	reads := []string{"get", "secrets/" + secret, "--namespace=default"}
	const agent = "--as=system:serviceaccount:kube-system:gcu-node-agent"
	if may(agent, reads...) == nil {
		t.Error("agents may read the Secret before")
	}
	c = s.pageOf(t, "docs/install.md", "Pull secrets", map[string]string{"NAMESPACE": "default", "NAME": secret})
	c.block(ctx)
	t.Cleanup(func() {
		s.kubectl(context.WithoutCancel(ctx), t, "delete", "--namespace=default", "role/gcu-node-agent-pull", "rolebinding/gcu-node-agent-pull")
	})
	s.eventually(ctx, t, func() error { return may(agent, reads...) })
	if may(agent, "get", "secrets/another", "--namespace=default") == nil {
		t.Error("agents may read other Secrets")
	}
	s.componentsOnControlPlane(ctx, t)
}

// componentsOnControlPlane: privileged components are refused on a node of the control plane, until the node is labelled.
func (s *stage) componentsOnControlPlane(ctx context.Context, t *testing.T) {
	t.Helper()
	node, name := s.nodes[0], s.name("page-control")
	s.labelled(ctx, t, s.nodes[:1], "node-role.kubernetes.io/control-plane=")
	s.create(ctx, t, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.GcuResourceSpec{Driver: s.component(name, "v1")}})
	s.shows(ctx, t, name, "refused", func(gr *topsv1.GcuResource) bool {
		return slices.ContainsFunc(gr.Status.StandardConditions, func(c metav1.Condition) bool {
			return c.Type == "Degraded" && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "gcu-control-plane-workloads")
		})
	})
	c := s.pageOf(t, "docs/install.md", "GCUs in nodes of the control plane", map[string]string{"NODE": node})
	c.block(ctx)
	t.Cleanup(func() {
		s.kubectl(context.WithoutCancel(ctx), t, "label", "node", node, "node-restriction.kubernetes.io/gcu-components-")
	})
	s.shows(ctx, t, name, "deployed", func(gr *topsv1.GcuResource) bool { return gr.Status.Phase == topsv1.PhaseRunning })
	if len(s.podsOf(ctx, t, name)) != stageNodes {
		t.Error("the driver is not on every node")
	}
}
