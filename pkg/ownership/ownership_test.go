package ownership

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
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

// Labels and owners may be anyone's, where no policy bounds them. The spec, or a kept one that the cache may
// lack, gives the operator's DaemonSets their namespaces and names.
func TestDaemonSetsOfTheOperator(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine"},
		Spec: fixture.SpecNaming(types.NamespacedName{Namespace: "apps", Name: "now"})}
	earlier := gr.DeepCopy()
	earlier.Spec = fixture.SpecNaming(types.NamespacedName{Namespace: "apps", Name: "earlier"})
	h, err := revision.NewHistory(earlier, nil)
	if err != nil {
		t.Fatal(err)
	}
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
	cached, live := store(t, objects...), store(t, h.New(earlier, "gcu-system"))
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
