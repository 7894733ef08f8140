package gcuresource

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Observation is everything a decision about one gr is made from. Decisions
// only read it; Reconcile lays what it applied over it before it reports.
type Observation struct {
	// Resource is the gr, with the status last written.
	Resource *topsv1.GcuResource
	// Rollback says why the earlier spec that an annotation asks for cannot be
	// restored; nil when none is asked for.
	Rollback *Failure
	// Components are those the gr asks for, in deployment order.
	Components []Component
	// Owned are the objects in the cluster that belong to the gr, whether its
	// spec still asks for them or not, sorted by Ref. What is kept is not among them.
	Owned []Owned
	// Nodes are all nodes, sorted by name.
	Nodes []*corev1.Node
	// Applied remembers, by UID of the object, what was last applied to it. It is
	// empty after a restart: then everything is applied once more, which changes nothing.
	Applied map[types.UID]Applied
	// Others are the other grs, sorted by age, then name.
	Others []topsv1.GcuResource
	// Rivals are the workloads of other grs that must not run beside a component
	// this gr asks for.
	Rivals []Rival
	// Changed are the components whose pods differ from those of the spec before
	// this one; empty once a status was written about this one.
	Changed []string
	// Trouble is what keeps failing and is no component's own; nil when nothing does.
	Trouble *Failure
	// Halt says why the rollout of the gr is halted until a person acts; nil when it is not.
	Halt *Failure
	// kept is what the pass before left, fleet that of it which holds Nodes; nil
	// when nothing is kept.
	kept  *kept
	fleet *keptNodes
}

// Rival is a workload of another gr.
type Rival struct {
	Ref component.Ref
	// Component is its component.
	Component string
	// GcuResource is the gr it belongs to.
	GcuResource string
}

// Component is a requested component and what there is of it.
type Component struct {
	component.Rendered
	// Live has the metadata of its objects that exist, ours or not.
	Live map[component.Ref]*metav1.PartialObjectMetadata
	// DaemonSet is the one of a component that runs on nodes, when it exists and
	// is ours, else nil.
	DaemonSet *appsv1.DaemonSet
	// Deployments and Jobs are those that exist and are ours, by name.
	Deployments map[string]*appsv1.Deployment
	Jobs        map[string]*batchv1.Job
	// Pods are those owned by a DaemonSet with the component's name, by UID when
	// that DaemonSet exists, and those its Deployments and Jobs made. Pods whose
	// workload is gone are among them.
	Pods []*corev1.Pod
	// Revisions are the ControllerRevisions in its namespace that may be of DaemonSet.
	Revisions []*appsv1.ControllerRevision
	// kept is what holds Pods; nil when nothing is kept.
	kept *keptPods
	// Failure says what went wrong when it was applied in this pass; nil when nothing did.
	Failure *Failure
}

// Owned is an object in the cluster that belongs to a gr.
type Owned struct {
	Ref component.Ref
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
	// ReasonComponentConflict means that another gr deploys what must not run
	// beside this component.
	ReasonComponentConflict = "ComponentConflict"
	// ReasonNamespaceTerminating means that the component's namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonNamespaceMissing means that the component's namespace does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonJobFailed means that a Job of the component gave up.
	ReasonJobFailed = "JobFailed"
)

// perNodeRef returns the Ref of the component's DaemonSet; PerNode must not be nil.
func (c *Component) perNodeRef() component.Ref {
	return component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: c.PerNode.Namespace, Name: c.PerNode.Name}
}

// exists reports whether the component is there, at least in part.
func (c *Component) exists() bool {
	return c.DaemonSet != nil || len(c.Deployments) > 0 || len(c.Jobs) > 0
}

// conflict returns a Failure when an object the component needs exists and is
// not ours. Such an object is never taken over (decision D28).
func (c *Component) conflict(gr *topsv1.GcuResource) *Failure {
	for _, d := range c.Objects {
		if live := c.Live[d.Ref]; live != nil && !d.Ref.Shared() && !ours(gr, d.Ref, live) {
			return conflictFailure(d.Ref, live)
		}
	}
	return nil
}

// rival returns a Failure when a gr that is older than this one deploys what
// must not run beside the component: it has the cards until it goes (contract
// statement 34, components.md section 1.0).
func rival(obs *Observation, name string) *Failure {
	for i := range obs.Others {
		other := &obs.Others[i]
		if !older(other, obs.Resource) {
			continue
		}
		for _, requested := range component.Requested(&other.Spec) {
			if slices.Contains(component.Find(name).Excludes, requested) {
				return &Failure{Reason: ReasonComponentConflict, Message: fmt.Sprintf(
					"GcuResource %s deploys %s, which would hand out the same cards: set notDeploy: true on one side", other.Name, requested)}
			}
		}
	}
	return nil
}

// older orders grs by age, and by name when they are of one age.
func older(a, b *topsv1.GcuResource) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// ours reports whether an existing object belongs to the gr: controlled by its
// UID. What is kept has no owner; any gr may have it once this operator made it.
func ours(gr *topsv1.GcuResource, ref component.Ref, live metav1.Object) bool {
	if ref.Kept() {
		return live.GetLabels()[topsv1.LabelManagedBy] == topsv1.ManagedBy
	}
	return metav1.IsControlledBy(live, gr)
}

func conflictFailure(ref component.Ref, live metav1.Object) *Failure {
	owner := "was not made by this operator"
	if c := metav1.GetControllerOf(live); c != nil {
		owner = "belongs to " + c.Kind + " " + c.Name
	}
	return &Failure{Reason: ReasonObjectConflict, Message: ref.String() + " exists and " + owner +
		": delete it, or give the component another name or set its notDeploy: true"}
}

// upToDate reports whether an object needs no apply: it is there and made once, or
// the same content was applied before, and nobody changed the object since.
func upToDate(d *component.Desired, live *metav1.PartialObjectMetadata, applied map[types.UID]Applied) bool {
	if live == nil {
		return false
	}
	if d.Ref.MadeOnce() {
		return true
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

// carries reports whether the labels, annotations and owner of a Desired are on the object.
func carries(live *metav1.PartialObjectMetadata, d *component.Desired) bool {
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
