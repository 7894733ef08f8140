package ownership

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/test/fixture"
)

func store(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// specOf returns the kept spec of a gr.
func specOf(t *testing.T, gr *topsv1.GcuResource) client.Object {
	t.Helper()
	h, err := revision.NewHistory(gr, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h.New(gr, "gcu-system")
}

// Labels and owners may be anyone's, where no policy bounds them. The spec, or a kept one that the cache may
// lack, gives the operator's DaemonSets their namespaces and names.
func TestDaemonSetsOfTheOperator(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine"},
		Spec: fixture.SpecNaming(types.NamespacedName{Namespace: "apps", Name: "now"})}
	earlier := gr.DeepCopy()
	earlier.Spec = fixture.SpecNaming(types.NamespacedName{Namespace: "apps", Name: "earlier"})
	objects := []client.Object{gr}
	add := func(namespace, name string, labels map[string]string, owner types.UID, kind string) {
		objects = append(objects, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Labels: labels,
			OwnerReferences: fixture.ControlledBy(topsv1.GroupVersion.String(), kind, "mine", owner)}})
	}
	exporter := map[string]string{topsv1.LabelComponent: "exporter"}
	add("apps", "now", exporter, "uid-mine", topsv1.GcuResourceKind)
	add("apps", "earlier", map[string]string{topsv1.LabelComponent: "other"}, "uid-mine", topsv1.GcuResourceKind)
	add("apps", "forged", exporter, "uid-mine", topsv1.GcuResourceKind)
	add("tenant", "now", exporter, "uid-mine", topsv1.GcuResourceKind)
	add("kube-system", "enflame-gcu-exporter", exporter, "uid-gone", topsv1.GcuResourceKind)
	add("kube-system", "enflame-driver", exporter, "uid-mine", "Anything")
	cached, live := store(t, objects...), store(t, specOf(t, earlier))
	sets, err := Reader{Reader: cached, Live: live, Namespace: "gcu-system"}.DaemonSets(t.Context(), cached)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ds := range sets {
		names = append(names, ds.Namespace+"/"+ds.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"apps/earlier", "apps/now"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[types.UID]bool{"apps/now": true}, UIDs(sets, []string{"driver", "exporter"})); diff != "" {
		t.Errorf("of the components driver and exporter (-want +got):\n%s", diff)
	}
}

// Pods keep cards under names that the template of their device plugin had, also when its DaemonSet is gone.
func TestHeldResources(t *testing.T) {
	set := func(name, component, resources string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, UID: types.UID(name), Labels: map[string]string{topsv1.LabelComponent: component},
			OwnerReferences: fixture.ControlledBy(topsv1.GroupVersion.String(), topsv1.GcuResourceKind, "mine", "uid-mine")},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: daemonset.VariableOfResources, Value: resources}}}}}}}}
	}
	kept := func(name, of string, owner types.UID, data string) client.Object {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, Labels: map[string]string{"app": of},
			OwnerReferences: fixture.ControlledBy("apps/v1", "DaemonSet", of, owner)}, Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	naming := func(resource string) string {
		return `{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"` + daemonset.VariableOfResources + `","value":"` + resource + `"}]}]}}}}`
	}
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine"}}
	earlier := gr.DeepCopy()
	earlier.Spec.DevicePlugin = &topsv1.BaseFields{Name: "gone", Env: []corev1.EnvVar{{Name: daemonset.VariableOfResources, Value: "a.com/gone"}}}
	earlier.Spec.Exporter = &topsv1.BaseFields{Env: []corev1.EnvVar{{Name: daemonset.VariableOfResources, Value: "a.com/exporter"}}}
	former := earlier.DeepCopy()
	former.UID, former.Spec.DevicePlugin.Env[0].Value = "uid-before", "a.com/former"
	from := store(t, gr, specOf(t, earlier), specOf(t, former), kept("now", "plugin", "plugin", naming("a.com/now,a.com/both")), kept("before", "plugin", "plugin", naming("a.com/before,a.com/both")),
		kept("unreadable", "plugin", "plugin", `{"spec":{"template":7}}`), kept("another", "plugin", "uid-gone", naming("a.com/other")), kept("exports", "exporter", "exporter", naming("a.com/exporter")))
	sets := []*appsv1.DaemonSet{set("plugin", "devicePlugin", "a.com/now,a.com/both"), set("exporter", "exporter", "")}
	held, _, err := Reader{Reader: from, Namespace: "gcu-system"}.HeldResources(t.Context(), sets)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.ResourceName{"a.com/before", "a.com/both", "a.com/gone", "a.com/now"}, held); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
