// Package state describes what exists of a GcuResource (gr) in the cluster, and the health of its
// components: the basis of decisions and of the status.
//
//	observation.go    what was read
//	failure.go        why a component failed
//	ownership.go      which gr an object belongs to
//	health.go         the health of a component, and the message about it
//	host.go           what the NodeUpgrade of a node says about cards
//	restarts.go       restarts of container engines that a plugin waits for
//	assess.go         assesses the pods: per node (nodehealth.go) or replicas (replicahealth.go)
//	cache.go          what a pass leaves to the next one to save reads
package state

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// Observation is everything that a decision about one gr is based on. Decisions only read it;
// Reconcile adds what it applied before it reports.
type Observation struct {
	// Resource is the gr as it is deployed, with the status last written.
	Resource *topsv1.GcuResource
	// Rejected says why an earlier spec is deployed in place of the gr's own; nil if it is not.
	Rejected *Failure
	// Rollback says why the earlier spec requested by annotation cannot be restored; nil if it
	// can, or if none is requested.
	Rollback *Failure
	// Components that the gr requests, in deployment order.
	Components []Component
	// Owned are the objects in the cluster that belong to the gr, including those that its spec
	// no longer requests, sorted by Ref. Kept objects are not among them.
	Owned []Owned
	// Former are the pods of DaemonSets that are gone, by the component for which an earlier spec names them. Pods under the
	// present name of a component are in Pods. They are read when a DaemonSet is to be created, or the gr deleted.
	Former map[string][]*corev1.Pod
	// Nodes are all nodes, sorted by name.
	Nodes []*corev1.Node
	// Hosts are what is known of nodes from their NodeUpgrades, by name.
	Hosts map[string]Host
	// Applied is what was last applied to each object, by UID. It is empty after a restart: then
	// everything is applied again, without effect.
	Applied map[types.UID]Applied
	// Begun are the components that do not exist and for which an earlier pass deleted what they replace. It is empty after a
	// restart.
	Begun map[string]bool
	// Others are the other grs, sorted by age, then name.
	Others []topsv1.GcuResource
	// Excluded are the workloads of other grs that a requested component of this gr excludes.
	Excluded []ExcludedWorkload
	// Operating are the nodes on which an operation of the gr's rollout is not over, sorted. They are read when it is deleted.
	Operating []string
	// Changed are the components whose pod templates differ from those of the previous spec;
	// empty once a status describes the current spec.
	Changed []string
	// ReconcileFailure is a lasting failure that is not a component's own; nil if there is none.
	ReconcileFailure *Failure
	// Rollout is what the status reports of the gr's rollout.
	Rollout Rollout
	// StateTimes knows since when pods terminate; nil trusts the clock of the API server.
	StateTimes *daemonset.StateTimes
	// Cache is what the previous pass left, CachedNodes its entry for Nodes; nil if nothing is
	// cached. Hosts are then from it too.
	Cache       *Cache
	CachedNodes *CachedNodes
}

// Rollout is the part of the state of a rollout that the status of its gr reports.
type Rollout struct {
	// Halt is why failed nodes halt it until a person acts. Stalled is why it makes no progress until a person acts, which
	// may have another cause. Each is nil if it does not apply.
	Halt, Stalled *Failure
	// Unfinished is true while it has work to do, though the newest pods may run on all nodes.
	Unfinished bool
	// InFlight reports whether nodes are in flight.
	InFlight bool
}

// ExcludedWorkload is a workload of another gr, of a component that one of this gr excludes.
type ExcludedWorkload struct {
	Ref component.Ref
	// Component is its component.
	Component string
	// GcuResource is the gr it belongs to.
	GcuResource string
}

// Component is a requested component and what exists of it.
type Component struct {
	component.Rendered
	// Live has the metadata of its existing objects, whether ours or not.
	Live map[component.Ref]*metav1.PartialObjectMetadata
	// DaemonSet of a component that runs on nodes, if it exists and is ours and not another component's; otherwise nil.
	DaemonSet *appsv1.DaemonSet
	// Deployments and Jobs that exist and are ours, by name.
	Deployments map[string]*appsv1.Deployment
	Jobs        map[string]*batchv1.Job
	// Released are its volumes whose claims are gone: Kubernetes binds them to no other claim.
	Released []Owned
	// Pods of its DaemonSet, Deployments and Jobs, including pods whose workload is gone, but not
	// those of a foreign DaemonSet.
	Pods []*corev1.Pod
	// Revisions are the ControllerRevisions in its namespace with the labels of DaemonSet.
	Revisions []*appsv1.ControllerRevision
	// CachedPods is the cache entry of Pods; nil if nothing is cached.
	CachedPods *CachedPods
	// Failure says why it could not be applied in this pass; nil if it could.
	Failure *Failure
}

// Owned is an object in the cluster that belongs to a gr.
type Owned struct {
	Ref component.Ref
	// UID is the precondition of its deletion, and Version its resourceVersion, "" for any.
	UID     types.UID
	Version string
	// Component is the value of its LabelComponent.
	Component string
	// Deleting is true once its deletion was requested.
	Deleting bool
	// DaemonSet is the object if it is one, nil otherwise. If the spec no longer requests it, Nodes
	// are those with a pod of it that is not a placeholder, sorted, and Revisions are as in Component.
	DaemonSet *appsv1.DaemonSet
	Nodes     []string
	Revisions []*appsv1.ControllerRevision
}

// Leftovers returns the indexes in Owned of the objects that the spec no longer requests. A DaemonSet whose name is that of
// another component now is among them, unless its own component asks for the name too: then both fail.
func (o *Observation) Leftovers() []int {
	askedBy := map[component.Ref][]string{}
	for i := range o.Components {
		for _, d := range o.Components[i].Objects {
			askedBy[d.Ref] = append(askedBy[d.Ref], o.Components[i].Name)
		}
	}
	var left []int
	for i := range o.Owned {
		ds := o.Owned[i].DaemonSet
		if !slices.ContainsFunc(askedBy[o.Owned[i].Ref], func(by string) bool { return ds == nil || !IsOfAnother(by, ds) }) {
			left = append(left, i)
		}
	}
	return left
}

// Applied is the result of a successful apply.
type Applied struct {
	// Hash of the Desired.
	Hash string
	// Generation of the object after the apply; 0 for kinds without one.
	Generation int64
	// ResourceVersion of the object after the apply.
	ResourceVersion string
}

// DaemonSetRef returns the Ref of the component's DaemonSet; PerNode must not be nil.
func (c *Component) DaemonSetRef() component.Ref {
	return component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: c.PerNode.Namespace, Name: c.PerNode.Name}
}

// exists reports whether a workload of the component exists.
func (c *Component) exists() bool {
	return c.DaemonSet != nil || len(c.Deployments) > 0 || len(c.Jobs) > 0
}

// LacksReplicas reports whether a Deployment of the component has not all its replicas available.
func (c *Component) LacksReplicas() bool {
	for _, d := range c.Deployments {
		if d.Status.AvailableReplicas < ptr.Deref(d.Spec.Replicas, 1) {
			return true
		}
	}
	return false
}

// metadataOf returns the metadata of an object that a decision needs.
func metadataOf(ref component.Ref, live metav1.Object) *metav1.PartialObjectMetadata {
	m := ref.Metadata()
	m.UID, m.Generation, m.ResourceVersion = live.GetUID(), live.GetGeneration(), live.GetResourceVersion()
	m.Labels, m.Annotations, m.OwnerReferences = live.GetLabels(), live.GetAnnotations(), live.GetOwnerReferences()
	m.DeletionTimestamp = live.GetDeletionTimestamp()
	return m
}

// SetLive records an object that exists in the cluster. It sets a workload only if it belongs to
// the gr. An error means that it cannot be decoded.
func (c *Component) SetLive(gr *topsv1.GcuResource, ref component.Ref, live metav1.Object) error {
	c.Live[ref] = metadataOf(ref, live)
	if !daemonset.IsOf(live, gr) {
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
		if !IsOfAnother(c.Name, o) {
			c.DaemonSet = o
		}
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
