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

// The manifests are those that are shipped. The manager runs beside the cluster, because no program runs in its pods.
func TestThePagesInstallAndRemove(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
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

// To v2, to v3, and back.
func TestThePageHasTheCommandsOfAFirstUpgrade(t *testing.T) {
	s, ctx := enter(t)
	name := s.name("page-first")
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.GcuResourceSpec{GFD: s.component(name, "1.0.0")}}
	s.create(ctx, t, gr.DeepCopy())
	s.shows(ctx, t, name, "deployed", func(gr *topsv1.GcuResource) bool { return gr.Status.Phase == topsv1.PhaseRunning })
	observer, err := harness.Observe(ctx, s.Cluster, "app.kubernetes.io/name="+name)
	if err != nil {
		t.Fatal(err)
	}
	d := &drivers{stage: s, t: t, name: name}
	c := s.pageOf(t, "README.md", "First upgrade", map[string]string{"enflame-gcu-resource": name, "exporter": "gfd",
		"kubectl get dro -A -w": endless("kubectl get dro -A -w", name) + "kill $!", "kubectl gcu rollback": "kubectl gcu rollback " + name})
	c.next(ctx)
	c.next(ctx)
	c.next(ctx)
	c.says(c.next(ctx), name, "AdvancedRollingUpdate")
	d.has(ctx, "1.1.0")

	gr.Spec.GFD.Version = "1.2.0"
	(&mission{drivers: d}).write(filepath.Join(c.dir, "gr.yaml"), gr)
	c.says(c.next(ctx), "1.2.0", fmt.Sprintf("(%d nodes, 2 at a time)", stageNodes)) // a node that another story has just let go comes first
	c.next(ctx)
	d.hasVersion(ctx, name, "1.2.0")
	c.says(c.next(ctx), "gfd.version: 1.2.0 -> 1.1.0")
	d.has(ctx, "1.1.0")
	atMost(t, observer, 2)
}

// has waits until all nodes have a version of gfd.
func (d *drivers) has(ctx context.Context, version string) {
	d.t.Helper()
	d.shows(ctx, d.t, d.name, "at "+version, func(gr *topsv1.GcuResource) bool {
		return gr.Spec.GFD.Version == version && gr.Status.ObservedGeneration == gr.Generation && gr.Status.Phase == topsv1.PhaseRunning
	})
	d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })
	d.hasVersion(ctx, d.name, version)
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
		"kubectl gcu dashboard": endless("kubectl gcu dashboard", "http:") + `curl -sSL --fail --cookie '' "$(grep -o 'http://[^ ]*' printed)"; kill $! `})
	c.shows(ctx, append(failed, m.name, "Stopped (Halted)")...)
	c.says(c.next(ctx), "http://127.0.0.1:", "<title>GCU fleet</title>")
	c.shows(ctx, append(failed, "failed")...)
	c.shows(ctx, "Degraded", m.name)
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

// componentsOnControlPlane: privileged components are refused on a node of the control plane, until the node is labeled.
func (s *stage) componentsOnControlPlane(ctx context.Context, t *testing.T) {
	t.Helper()
	node, name := s.nodes[0], s.name("page-control")
	s.labeled(ctx, t, s.nodes[:1], "node-role.kubernetes.io/control-plane=")
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
