package observed

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Kinds of Group.
const (
	KindGcuResource = "GcuResource"
	KindDaemonSet   = "DaemonSet"
	// KindNode is the kind of a group without members: its pass answers the requests of one node for
	// DaemonSets that do not exist.
	KindNode = "Node"
)

// Group identifies a rollout group: a GcuResource, with an empty Namespace, or a single
// DaemonSet.
type Group struct {
	Kind      string
	Namespace string
	Name      string
}

// String returns the group's name in metrics and logs: the gr's name, or namespace/name of the
// DaemonSet.
func (g Group) String() string {
	if g.Namespace == "" {
		return g.Name
	}
	return g.Namespace + "/" + g.Name
}

// GroupOf returns the group of a DaemonSet: the group of the GcuResource that controls it, otherwise
// its own.
func GroupOf(ds *appsv1.DaemonSet) Group {
	if ref := daemonset.GcuResourceOwner(ds); ref != nil {
		return Group{Kind: KindGcuResource, Name: ref.Name}
	}
	return Group{Kind: KindDaemonSet, Namespace: ds.Namespace, Name: ds.Name}
}

// Restarts reports whether a DaemonSet is the toolkit of a gr and does not leave: for it runtimes are restarted under
// any strategy.
func Restarts(ds *appsv1.DaemonSet) bool {
	return daemonset.Component(ds) == upgradeplan.TargetToolkit && !daemonset.IsLeaving(ds)
}

// RolloutKey returns the key of the group's DaemonRollout. GcuResources have no namespace, so
// their DaemonRollouts are in the operator's.
func (g Group) RolloutKey(operatorNamespace string) types.NamespacedName {
	if g.Kind == KindGcuResource {
		return types.NamespacedName{Namespace: operatorNamespace, Name: g.Name}
	}
	return types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
}

// OperationKey returns the group's name in operations: namespace/name of its DaemonRollout. It is "" for the group of a
// DaemonSet, which has no operations; a gr of the same name may have some.
func (g Group) OperationKey(operatorNamespace string) string {
	if g.Kind != KindGcuResource {
		return ""
	}
	return g.RolloutKey(operatorNamespace).String()
}

// DaemonSets returns the DaemonSets of a list that belong to a group, in the order in which a
// node's pods are replaced: by the order annotation, then by namespace and name. A DaemonSet that
// is being deleted no longer belongs to it, nor does one that a former GcuResource of that name
// controls; owner is the UID of the current GcuResource, "" if there is none.
func (g Group) DaemonSets(all []appsv1.DaemonSet, owner types.UID) []*appsv1.DaemonSet {
	var list []*appsv1.DaemonSet
	for i := range all {
		ds := &all[i]
		if ds.DeletionTimestamp != nil || GroupOf(ds) != g {
			continue
		}
		if ref := daemonset.GcuResourceOwner(ds); ref == nil || owner == "" || ref.UID == owner {
			list = append(list, ds)
		}
	}
	slices.SortFunc(list, func(a, b *appsv1.DaemonSet) int {
		return cmp.Or(cmp.Compare(orderOf(a), orderOf(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func orderOf(ds *appsv1.DaemonSet) int {
	order, err := strconv.Atoi(ds.Annotations[topsv1.AnnotationOrder])
	if err != nil {
		return 0 // not annotated: a DaemonSet that is a group of its own
	}
	return order
}

// ByName returns pointers to the objects of a list, sorted by name.
func ByName[T any, O interface {
	*T
	GetName() string
}](items []T) []*T {
	list := make([]*T, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	slices.SortFunc(list, func(a, b *T) int { return cmp.Compare(O(a).GetName(), O(b).GetName()) })
	return list
}
