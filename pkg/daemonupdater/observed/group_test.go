package observed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestGroupOf(t *testing.T) {
	alone := Group{Kind: "DaemonSet", Namespace: "kube-system", Name: "driver"}
	ownedBy := func(refs []metav1.OwnerReference) *appsv1.DaemonSet {
		ds := fixture.DaemonSet("driver")
		ds.OwnerReferences = refs
		return ds
	}
	notController := fixture.ControlledBy("topsops.enflame.com/v1", "GcuResource", "fleet", "u")
	notController[0].Controller = nil
	labeled := fixture.DaemonSet("driver")
	labeled.Labels = map[string]string{topsv1.LabelGcuResource: "fleet"}
	tests := []struct {
		name string
		ds   *appsv1.DaemonSet
		want Group
	}{
		{"a DaemonSet of nobody is a group of one", fixture.DaemonSet("driver"), alone},
		{"a DaemonSet of a gr belongs to it", fixture.OfGcuResource(fixture.DaemonSet("driver")), Group{Kind: "GcuResource", Name: "fleet"}},
		{"a label alone does not make it one of a gr", labeled, alone},
		{"an owner that is not the controller does not", ownedBy(notController), alone},
		{"a GcuResource of another API does not", ownedBy(fixture.ControlledBy("example.com/v1", "GcuResource", "fleet", "u")), alone},
		{"another controller does not", ownedBy(fixture.ControlledBy("topsops.enflame.com/v1", "Addon", "fleet", "u")), alone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, GroupOf(tt.ds)); diff != "" {
				t.Errorf("groupOf (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupNames(t *testing.T) {
	tests := []struct {
		name         string
		group        Group
		text, stored string
	}{
		{"a gr is known by its name and stored in the operator's namespace", Group{Kind: "GcuResource", Name: "fleet"}, "fleet", "gcu-system/fleet"},
		{"a DaemonSet is known by namespace and name and stored beside it", Group{Kind: "DaemonSet", Namespace: "apps", Name: "driver"}, "apps/driver", "apps/driver"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.group.String(); got != tt.text {
				t.Errorf("String = %q, want %q", got, tt.text)
			}
			if got := tt.group.RolloutKey("gcu-system").String(); got != tt.stored {
				t.Errorf("RolloutKey = %q, want %q", got, tt.stored)
			}
		})
	}
}

func TestTheOrderOfReplacementComesBeforeTheName(t *testing.T) {
	in := func(name string) *appsv1.DaemonSet { return fixture.OfGcuResource(fixture.DaemonSet(name)) }
	at := func(order, name string) *appsv1.DaemonSet {
		return fixture.Annotate(in(name), topsv1.AnnotationOrder, order)
	}
	elsewhere, deleted := at("2", "c"), in("deleted")
	elsewhere.Namespace, deleted.DeletionTimestamp = "apps", &metav1.Time{Time: fixture.Epoch}
	list := []*appsv1.DaemonSet{at("10", "a"), at("2", "z"), at("2", "b"), in("y"), elsewhere, deleted, fixture.DaemonSet("of-no-gr")}
	var got []string
	for _, ds := range (Group{Kind: KindGcuResource, Name: "fleet"}).DaemonSets(fixture.Values(list), "") {
		got = append(got, ds.Namespace+"/"+ds.Name)
	}
	if diff := cmp.Diff([]string{"kube-system/y", "apps/c", "kube-system/b", "kube-system/z", "kube-system/a"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestAGroupHasTheDaemonSetsOfItsGcuResource(t *testing.T) {
	ours, forged := fixture.OfGcuResource(fixture.DaemonSet("ours")), fixture.OfGcuResource(fixture.DaemonSet("forged"))
	forged.OwnerReferences[0].UID = "uid-invented"
	group := Group{Kind: KindGcuResource, Name: "fleet"}
	list := fixture.Values([]*appsv1.DaemonSet{forged, ours})
	if got := group.DaemonSets(list, "uid-fleet"); len(got) != 1 || got[0].Name != "ours" {
		t.Errorf("%d DaemonSets, want the one with the UID of the gr", len(got))
	}
	if got := group.DaemonSets(list, "uid-recreated"); len(got) != 0 {
		t.Errorf("%d DaemonSets, want none while none has the UID of the gr", len(got))
	}
	if got := group.DaemonSets(list, ""); len(got) != 2 {
		t.Errorf("%d DaemonSets, want both without a gr: they end with it", len(got))
	}
}

func TestPointersAreSortedAndPointIntoTheList(t *testing.T) {
	items := []corev1.Node{*fixture.Node("b"), *fixture.Node("c"), *fixture.Node("a")}
	list := ByName(items)
	if diff := cmp.Diff([]string{"a", "b", "c"}, []string{list[0].Name, list[1].Name, list[2].Name}); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if list[0] != &items[2] {
		t.Error("the first pointer is to a copy")
	}
}
