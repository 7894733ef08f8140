package gcuresource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
)

// A workload that excludes a component of a gr keeps it from being created. Only one that another gr
// made does: a tenant's may carry its labels, its kind of owner, its name, and even its UID.
func TestAnExcludedWorkloadIsOneThatAnotherGcuResourceCreated(t *testing.T) {
	other := topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "uid-other"}}
	earlier := other
	earlier.Spec.DevicePlugin = &topsv1.BaseFields{Name: "earlier", Namespace: "apps"}
	foreign := func(change func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
		m := &metav1.ObjectMeta{Namespace: "kube-system", Name: "enflame-gcu-k8s-plugin", Labels: map[string]string{topsv1.LabelComponent: "devicePlugin"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: "other", UID: "uid-other", Controller: ptr.To(true)}}}
		change(m)
		return m
	}
	for name, tt := range map[string]struct {
		change func(*metav1.ObjectMeta)
		want   int
	}{
		"made by the other gr":                            {func(*metav1.ObjectMeta) {}, 1},
		"made by the other gr under an earlier name":      {func(m *metav1.ObjectMeta) { m.Namespace, m.Name = "apps", "earlier" }, 1},
		"of a kind of another API":                        {func(m *metav1.ObjectMeta) { m.OwnerReferences[0].APIVersion = "example.com/v1" }, 0},
		"of a gr that does not exist":                     {func(m *metav1.ObjectMeta) { m.OwnerReferences[0].UID = "uid-invented" }, 0},
		"of the other gr, in the namespace of a tenant":   {func(m *metav1.ObjectMeta) { m.Namespace = "tenant" }, 0},
		"of the other gr, under a name that it never had": {func(m *metav1.ObjectMeta) { m.Name = "free" }, 0},
		"of nobody": {func(m *metav1.ObjectMeta) { m.OwnerReferences = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := revision.NewHistory(&earlier, nil)
			if err != nil {
				t.Fatal(err)
			}
			store := fakeStore(t, &appsv1.DaemonSet{ObjectMeta: *foreign(tt.change)}, h.New(&earlier, "gcu-system"))
			gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine"}, Spec: topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{}}}
			excluded, err := excludedReader{Reader: store, namespace: "gcu-system"}.read(t.Context(), gr, []topsv1.GcuResource{other})
			if err != nil || len(excluded) != tt.want {
				t.Errorf("excluded %v, error %v; want %d", excluded, err, tt.want)
			}
		})
	}
}

func fakeStore(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// A DaemonSet with the labels and the very UID of the gr, where no policy bounds who sets it, in a namespace
// or under a name that the gr never gave it: the gr neither removes it nor waits for it.
func TestAForgedDaemonSetIsNotOfTheGcuResource(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine"}}
	earlier := gr.DeepCopy()
	earlier.Spec.Exporter = &topsv1.BaseFields{Namespace: "apps", Name: "earlier"}
	h, err := revision.NewHistory(earlier, nil)
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{h.New(earlier, "gcu-system")}
	for _, key := range []client.ObjectKey{
		{Namespace: "kube-system", Name: "enflame-gcu-exporter"}, {Namespace: "apps", Name: "earlier"}, // leaving, or about to
		{Namespace: "tenant", Name: "enflame-gcu-exporter"}, {Namespace: "tenant", Name: "earlier"}, {Namespace: "apps", Name: "forged"},
	} {
		objects = append(objects, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{topsv1.LabelGcuResource: "mine"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: "mine", UID: "uid-mine", Controller: ptr.To(true)}}}})
	}
	store := fakeStore(t, objects...)
	owned, err := stateReader{Reader: store, APIReader: store, namespace: "gcu-system"}.readDaemonSets(t.Context(), gr)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range owned {
		got = append(got, o.Ref.Namespace+"/"+o.Ref.Name)
	}
	if diff := cmp.Diff([]string{"apps/earlier", "kube-system/enflame-gcu-exporter"}, got); diff != "" {
		t.Errorf("DaemonSets of the gr (-want +got):\n%s", diff)
	}
}

// TestAnObjectWhoseOwnerHasTheUIDOfAGcuResourceOnlyIsNotOfIt: admission keeps others from naming a GcuResource as the controller
// of an object, not from naming another kind with its UID.
func TestAnObjectWhoseOwnerHasTheUIDOfAGcuResourceOnlyIsNotOfIt(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "uid-mine"}}
	h, err := revision.NewHistory(gr, nil)
	if err != nil {
		t.Fatal(err)
	}
	forged := []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Anything", Name: "mine", UID: "uid-mine", Controller: ptr.To(true)}}
	kept := h.New(gr, "gcu-system")
	kept.SetOwnerReferences(forged)
	labels := map[string]string{topsv1.LabelGcuResource: "mine", topsv1.LabelComponent: "exporter"}
	store := fakeStore(t, kept,
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "forged", Labels: labels, OwnerReferences: forged}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "enflame-gcu-exporter", Labels: labels, OwnerReferences: forged}})
	owned, err := stateReader{Reader: store, APIReader: store, namespace: "gcu-system"}.readOwned(t.Context(), gr)
	if err != nil || len(owned) > 0 {
		t.Errorf("it has %v: %v", owned, err)
	}
	history, err := revisionKeeper{namespace: "gcu-system"}.read(t.Context(), store, gr)
	if err != nil {
		t.Fatal(err)
	}
	if history.HasCurrent() {
		t.Error("a spec is kept that the operator did not keep")
	}
}
