// Package state is what there is of a GcuResource (gr) in the cluster, and how its
// components do: what a decision is made from and a status tells.
//
//	observation.go    what was read
//	failure.go        why something cannot be done
//	ownership.go      whose an object is
//	health.go         how a component does, and what is said of that
//	assess.go         looks at the pods: per node (nodehealth.go) or replicas (replicahealth.go)
//	cache.go          what a pass leaves to the next one, so that it looks at less
package state

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
	// ReconcileFailure is what keeps failing and is no component's own; nil when nothing does.
	ReconcileFailure *Failure
	// Halt says why the rollout of the gr is halted until a person acts; nil when it is not.
	Halt *Failure
	// Cache is what the pass before left, CachedNodes what of it holds Nodes; nil
	// when nothing is cached.
	Cache       *Cache
	CachedNodes *CachedNodes
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
	// CachedPods is what holds Pods; nil when nothing is cached.
	CachedPods *CachedPods
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

// DaemonSetRef returns the Ref of the component's DaemonSet; PerNode must not be nil.
func (c *Component) DaemonSetRef() component.Ref {
	return component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: c.PerNode.Namespace, Name: c.PerNode.Name}
}

// exists reports whether the component is there, at least in part.
func (c *Component) exists() bool {
	return c.DaemonSet != nil || len(c.Deployments) > 0 || len(c.Jobs) > 0
}

// SetLive notes an object as it is in the cluster. A workload counts when it is
// the gr's. An error means that it cannot be decoded.
func (c *Component) SetLive(gr *topsv1.GcuResource, ref component.Ref, live metav1.Object) error {
	m := ref.Metadata()
	m.UID, m.Generation, m.ResourceVersion = live.GetUID(), live.GetGeneration(), live.GetResourceVersion()
	m.Labels, m.Annotations, m.OwnerReferences = live.GetLabels(), live.GetAnnotations(), live.GetOwnerReferences()
	m.DeletionTimestamp = live.GetDeletionTimestamp()
	c.Live[ref] = m
	if !metav1.IsControlledBy(live, gr) {
		return nil
	}
	if u, ok := live.(*unstructured.Unstructured); ok && ref.Workload() {
		typed := ref.NewWorkload()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			return fmt.Errorf("decoding %s: %w", ref, err)
		}
		live = typed
	}
	switch o := live.(type) {
	case *appsv1.DaemonSet:
		c.DaemonSet = o
	case *appsv1.Deployment:
		if c.Deployments == nil {
			c.Deployments = map[string]*appsv1.Deployment{}
		}
		c.Deployments[o.Name] = o
	case *batchv1.Job:
		if c.Jobs == nil {
			c.Jobs = map[string]*batchv1.Job{}
		}
		c.Jobs[o.Name] = o
	}
	return nil
}
