package gcuresource

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Observation is everything a decision about one gr is made from. Decisions
// only read it; Reconcile lays what it applied over it before it reports.
type Observation struct {
	// Resource is the gr, with the status last written.
	Resource *topsv1.GcuResource
	// Rollback says why the earlier spec that an annotation asks for cannot be
	// restored; nil when none is asked for.
	Rollback *Failure
	// Components are those the gr asks for, as Render returns them.
	Components []Component
	// Owned are the objects in the cluster that belong to the gr, whether its
	// spec still asks for them or not, sorted by Ref. The kept CRD is not among them.
	Owned []Owned
	// Nodes are all nodes, sorted by name.
	Nodes []*corev1.Node
	// Applied remembers, by UID of the object, what was last applied to it. It is
	// empty after a restart: then everything is applied once more, which changes nothing.
	Applied map[types.UID]Applied
	// Alone is true when no other gr exists.
	Alone bool
}

// Component is a requested component and what there is of it.
type Component struct {
	Rendered
	// Live has the metadata of its objects that exist, ours or not.
	Live map[Ref]*metav1.PartialObjectMetadata
	// DaemonSet is its workload when it exists and is ours, else nil.
	DaemonSet *appsv1.DaemonSet
	// Pods are those owned by a DaemonSet with the workload's name, by UID when
	// that DaemonSet exists. A gone DaemonSet's pods are among them.
	Pods []*corev1.Pod
	// Revisions are the ControllerRevisions in its namespace that may be of DaemonSet.
	Revisions []*appsv1.ControllerRevision
	// Failure says what went wrong when it was applied in this pass; nil when nothing did.
	Failure *Failure
}

// Owned is an object in the cluster that belongs to a gr.
type Owned struct {
	Ref Ref
	// UID is the precondition of its deletion.
	UID types.UID
	// Component is the value of its LabelComponent.
	Component string
	// Deleting is true once its deletion was asked for.
	Deleting bool
}

// Applied is what a successful apply left behind.
type Applied struct {
	// Hash is that of the Desired.
	Hash string
	// Generation is that of the object after the apply; 0 for kinds that have none.
	Generation int64
	// ResourceVersion is that of the object after the apply.
	ResourceVersion string
}

// Failure says why a component cannot be deployed.
type Failure struct {
	// Reason is one CamelCase word for a condition.
	Reason string
	// Message says what to do about it.
	Message string
	// Retry is true when trying again soon may help; false when somebody has
	// to change something first.
	Retry bool
}

// Reasons of a Failure.
const (
	// ReasonObjectConflict means that an object of that name belongs to somebody else.
	ReasonObjectConflict = "ObjectConflict"
	// ReasonApplyFailed means that the API server refused an object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonNotServed means that this version cannot deploy the component.
	ReasonNotServed = "ComponentNotServed"
)

// workloadRef returns the Ref of the component's workload.
func (c *Component) workloadRef() Ref {
	return Ref{GroupVersionKind: daemonSetKind, Namespace: c.Workload.Namespace, Name: c.Workload.Name}
}

var daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// conflict returns a Failure when an object the component needs exists and is
// not ours. Such an object is never taken over (decision D28).
func (c *Component) conflict(gr *topsv1.GcuResource) *Failure {
	for _, d := range c.Objects {
		if live := c.Live[d.Ref]; live != nil && !ours(gr, d.Ref, live) {
			return conflictFailure(d.Ref, live)
		}
	}
	return nil
}

// ours tells whether an existing object belongs to the gr: controlled by its
// UID. The kept CRD has no owner; any gr may have it once this operator made it.
func ours(gr *topsv1.GcuResource, ref Ref, live metav1.Object) bool {
	if kept(ref.Name) {
		return live.GetLabels()[topsv1.LabelManagedBy] == topsv1.ManagedBy
	}
	return metav1.IsControlledBy(live, gr)
}

func conflictFailure(ref Ref, live metav1.Object) *Failure {
	owner := "was not made by this operator"
	if c := metav1.GetControllerOf(live); c != nil {
		owner = "belongs to " + c.Kind + " " + c.Name
	}
	return &Failure{Reason: ReasonObjectConflict, Message: ref.String() + " exists and " + owner +
		": delete it, or give the component another name or set its notDeploy: true"}
}

// upToDate tells whether an object needs no apply: the same content was
// applied before, and nobody changed the object since.
func upToDate(d *Desired, live *metav1.PartialObjectMetadata, applied map[types.UID]Applied) bool {
	if live == nil {
		return false
	}
	last, ok := applied[live.UID]
	if !ok || last.Hash != d.Hash {
		return false
	}
	if last.Generation == 0 {
		return live.ResourceVersion == last.ResourceVersion
	}
	// An older generation is a cache that has not seen our apply yet. The
	// generation does not count changes of metadata, so that is compared.
	return live.Generation <= last.Generation && carries(live, d)
}

// carries tells whether the labels, annotations and owner of a Desired are on the object.
func carries(live *metav1.PartialObjectMetadata, d *Desired) bool {
	if !includes(live.Labels, d.Object.GetLabels()) || !includes(live.Annotations, d.Object.GetAnnotations()) {
		return false
	}
	want, have := metav1.GetControllerOf(d.Object), metav1.GetControllerOf(live)
	return want == nil || (have != nil && have.UID == want.UID)
}

func includes(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}
