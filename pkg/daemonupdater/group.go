package daemonupdater

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Kinds of a group's target.
const (
	kindGcuResource = "GcuResource"
	kindDaemonSet   = "DaemonSet"
)

// Group identifies a rollout group: a GcuResource, whose Namespace is empty, or
// a single DaemonSet.
type Group struct {
	Kind      string
	Namespace string
	Name      string
}

// String is the group's name in metrics and logs: the gr's name, or
// namespace/name of the DaemonSet.
func (g Group) String() string {
	if g.Kind == kindGcuResource {
		return g.Name
	}
	return g.Namespace + "/" + g.Name
}

// groupOf returns the group a DaemonSet belongs to: that of the GcuResource
// that controls it, else its own.
func groupOf(ds *appsv1.DaemonSet) Group {
	if ref := gcuResourceOwner(ds); ref != nil {
		return Group{Kind: kindGcuResource, Name: ref.Name}
	}
	return Group{Kind: kindDaemonSet, Namespace: ds.Namespace, Name: ds.Name}
}

func gcuResourceOwner(ds *appsv1.DaemonSet) *metav1.OwnerReference {
	ref := metav1.GetControllerOf(ds)
	if ref == nil || ref.Kind != kindGcuResource || ref.APIVersion != topsv1.GroupVersion.String() {
		return nil
	}
	return ref
}

// rolloutKey names the DaemonRollout of a group. Those of GcuResources, which
// have no namespace, are in the operator's.
func (g Group) rolloutKey(operatorNamespace string) types.NamespacedName {
	if g.Kind == kindGcuResource {
		return types.NamespacedName{Namespace: operatorNamespace, Name: g.Name}
	}
	return types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
}

// sortMembers puts the DaemonSets of a group into the order in which a node's
// pods are replaced: by the order annotation, then by name.
func sortMembers(list []*appsv1.DaemonSet) {
	slices.SortFunc(list, func(a, b *appsv1.DaemonSet) int {
		return cmp.Or(cmp.Compare(orderOf(a), orderOf(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func orderOf(ds *appsv1.DaemonSet) int {
	order, err := strconv.Atoi(ds.Annotations[topsv1.AnnotationOrder])
	if err != nil {
		return 0 // not annotated: a DaemonSet that is a group of its own
	}
	return order
}
