package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/freeport"
	"github.com/topsops/gcu-operator/test/guide"
)

// Kubernetes hands a DaemonSet over and takes it back; only a changed template replaces pods.
func TestARollingUpdateDaemonSetIsHandedOverWithoutARestart(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "rolled", nil, func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(1))}}
	})
	c := s.pageOf(t, "docs/migrate.md", "From a RollingUpdate DaemonSet", map[string]string{"NAMESPACE": "default", "NAME": f.name})
	before, o := f.uids(ctx), f.observe(ctx)
	c.block(ctx)
	f.complete(ctx, "app:1", stageNodes)
	f.undisturbed(ctx, before)
	f.setImage(ctx, "app:2")
	f.complete(ctx, "app:2", stageNodes)
	atMost(t, o, 2)
	before = f.uids(ctx)
	c.block(ctx)
	f.eventually(ctx, func() error {
		ds, err := f.get(ctx)
		if err == nil && (ds.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || ds.Status.ObservedGeneration != ds.Generation ||
			int(ds.Status.UpdatedNumberScheduled) != stageNodes) {
			err = fmt.Errorf("type %s, %+v", ds.Spec.UpdateStrategy.Type, ds.Status)
		}
		return err
	})
	if left := survivors(before, f.uids(ctx)); left != stageNodes {
		t.Errorf("%d of %d pods are left after the DaemonSet was given back", left, stageNodes)
	}
}

// OpenYurt's controller is off in the middle of an upgrade by OTA, with pods that it has marked: nothing is restarted,
// and a request of a node is carried out, whoever's the annotations are.
func TestADaemonSetOfOpenYurtIsHandedOverWithoutARestart(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "yurt", nil)
	c := s.pageOf(t, "docs/migrate.md", "From OpenYurt's daemon pod updater", map[string]string{"NAMESPACE": "default", "NAME": f.name})
	f.setImage(ctx, "app:2")
	f.newestRevision(ctx)
	pods, err := f.pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods { // as OpenYurt's controller does
		pods[i].Status.Conditions = append(pods[i].Status.Conditions, corev1.PodCondition{Type: topsv1.PodNeedUpgrade, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		if err := s.Client.Status().Update(ctx, &pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	before, o := f.uids(ctx), f.observe(ctx)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		metav1.SetMetaDataAnnotation(&ds.ObjectMeta, topsv1.OpenYurtAnnotationUpdateStrategy, "OTA")
	})
	f.allHave(ctx, corev1.ConditionTrue)
	f.undisturbed(ctx, before)
	c.block(ctx)
	ds, err := f.get(ctx)
	if _, theirs := ds.Annotations[topsv1.OpenYurtAnnotationUpdateStrategy]; err != nil || theirs || ds.Annotations[topsv1.AnnotationUpdateStrategy] != "OTA" {
		t.Errorf("annotations %v, %v", ds.Annotations, err)
	}
	f.undisturbed(ctx, before)
	f.allHave(ctx, corev1.ConditionTrue)

	own := &pods[0]
	s.startAgents(ctx, t, own.Spec.NodeName)
	url := s.agents.Of(own.Spec.NodeName).URL + "/openyurt.io/v1/namespaces/default/pods/" + own.Name + "/upgrade"
	if code, text := post(ctx, t, url); code != 200 {
		t.Fatalf("POST answers %d %q", code, text)
	}
	f.isAt(ctx, "app:2", 1, 0)
	if left := survivors(before, f.uids(ctx)); left != stageNodes-1 {
		t.Errorf("%d of %d pods are left after the request of one node", left, stageNodes)
	}
	atMost(t, o, 1)
}

// The gr of the newer operator becomes ours; what is not taken over is printed.
func TestAGcuResourceOfTheNewerOperatorIsImported(t *testing.T) {
	s, ctx := enter(t)
	const crd = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gcuresources.topscloud.enflame.com"}, "spec": {
		"group": "topscloud.enflame.com", "scope": "Namespaced", "names": {"kind": "GcuResource", "plural": "gcuresources"}, "versions": [{"name": "v1", "served": true,
		"storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(crd)); err != nil {
		t.Fatal(err)
	}
	s.create(ctx, t, object)
	s.kubectl(ctx, t, "wait", "--for=condition=Established", "crd/gcuresources.topscloud.enflame.com", "--timeout=60s")
	name := s.name("newer")
	c := s.pageOf(t, "docs/migrate.md", "From gcu-operator 2.x", map[string]string{"NAME": name})
	component := func(short, image string) map[string]any {
		return map[string]any{"name": name + "-" + short, "image": image, "version": "v2", "nodeSelector": map[string]any{stageLabel: s.label}}
	}
	theirs := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"gcuExporter": component("exporter", "gcu-exporter"), "gfd": component("gfd", "gcu-feature-discovery"), "nodeExporter": map[string]any{}}}}
	theirs.SetGroupVersionKind(schema.GroupVersionKind{Group: "topscloud.enflame.com", Version: "v1", Kind: topsv1.GcuResourceKind})
	theirs.SetNamespace("kube-system")
	theirs.SetName(name)
	s.eventually(ctx, t, func() error { return s.Client.Create(ctx, theirs.DeepCopy()) })

	if said := c.block(ctx); !strings.Contains(said, "lost: spec.nodeExporter") {
		t.Errorf("what is lost is not printed: %s", said)
	}
	ours := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Cleanup(func() { s.remove(context.WithoutCancel(ctx), t, ours) })
	c.block(ctx)
	got := s.shows(ctx, t, name, "Running", func(gr *topsv1.GcuResource) bool { return gr.Status.ReadyResource == "2/2" })
	if got.Spec.Exporter == nil || got.Spec.Exporter.Version != "v2" || len(s.podsOf(ctx, t, name+"-exporter")) != stageNodes {
		t.Errorf("the exporter is %+v", got.Spec.Exporter)
	}
}

// The release of gcu-upgrade-manager has the port of the REST API. Once it is removed, ours answers as its guide says; the
// software that is deployed, and that it upgraded, stays as it is.
func TestTheRESTAPITakesThePlaceOfGCUUpgradeManager(t *testing.T) {
	s, ctx := enterAlone(t)
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	api := &controlPlane{address: address, blueprints: t.TempDir()}
	s.startManager(ctx, t, "--upgrade-api-bind-address", address, "--upgrade-api-auth=none", "--blueprint-dir", api.blueprints, "--upgrade-api-log-dir", t.TempDir())
	const name = "enflame-gcu-resource"
	gr := func(version string) *topsv1.GcuResource {
		return &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.GcuResourceSpec{
			Exporter: &topsv1.BaseFields{Version: version, NodeSelector: s.selector()},
			Driver:   &topsv1.BaseFields{Repository: "artifact.enflame.cn/galaxy_docker_hub/gcu", NodeSelector: s.selector()}}}
	}
	s.create(ctx, t, gr("v1"))
	s.shows(ctx, t, name, "Running", func(gr *topsv1.GcuResource) bool { return gr.Status.ReadyResource == "2/2" })
	before := s.podsOf(ctx, t, "enflame-gcu-exporter")
	theirs := s.releaseOfUpgradeManager(ctx, t)

	c := s.pageOf(t, "docs/migrate.md", "From gcu-upgrade-manager", map[string]string{"NAME": s.nodes[0]})
	c.in = s.Project.Root
	c.program("helm", "test \"$*\" = \"uninstall gcu-upgrade-manager --namespace kube-system\"\nexec kubectl delete --namespace kube-system deployment/"+theirs+" service/"+theirs)
	if _, err := s.Kubectl(ctx, "apply", "--server-side", "--dry-run=server", "-k", "examples/rest-api"); err == nil || !strings.Contains(err.Error(), "provided port is already allocated") {
		t.Errorf("beside the release before: %v", err)
	}
	t.Cleanup(func() {
		s.kubectl(context.WithoutCancel(ctx), t, "delete", "--namespace=kube-system", "--ignore-not-found", "deployment/gcu-operator", "daemonset/gcu-node-agent", "service/gcu-upgrade-manager",
			"service/gcu-operator-metrics", "networkpolicy/gcu-operator", "networkpolicy/gcu-nfd")
		s.kubectl(context.WithoutCancel(ctx), t, "label", "node", s.nodes[0], "node-restriction.kubernetes.io/gcu-upgrade-manager-")
	})
	if said := c.block(ctx); !strings.Contains(said, theirs) {
		t.Errorf("the release before is not shown: %s", said)
	}
	if said := c.block(ctx); !strings.Contains(said, "32765:32765/TCP") {
		t.Errorf("the Service of the REST API is\n%s", said)
	}
	api.run(ctx, t, guide.List)
	api.run(ctx, t, guide.Get)
	api.run(ctx, t, guide.Driver)
	if left := survivors(before, s.podsOf(ctx, t, "enflame-gcu-exporter")); left != len(before) {
		t.Errorf("%d of %d pods are left", left, len(before))
	}
	api.blueprint(t, gr("v2"))
	api.run(ctx, t, guide.Put)
	s.shows(ctx, t, name, "upgraded", func(gr *topsv1.GcuResource) bool {
		return gr.Spec.Exporter.Version == "v2" && action(gr, topsv1.ActionUpgrade) == "success/success"
	})
}

// releaseOfUpgradeManager stands in for what its chart deploys, and returns its name.
func (s *stage) releaseOfUpgradeManager(ctx context.Context, t *testing.T) string {
	t.Helper()
	const name = "gcu-upgrade-manager-chart"
	labels := map[string]string{"app": name}
	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: name}
	s.create(ctx, t, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: name}}}}}})
	s.create(ctx, t, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels,
		Ports: []corev1.ServicePort{{Port: 32765, NodePort: 32765}}}})
	return name
}
