package gcuresource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/pkg/ownership"
)

// stateReader reads everything that a decision about a gr needs. Except for the gr itself, the
// objects are shared with the cache and must not be changed.
type stateReader struct {
	client.Reader
	APIReader client.Reader
	namespace string
	cache     *indexedCache
	times     *daemonset.StateTimes
	now       func() time.Time
}

// observe reads the state of a gr.
func (r stateReader) observe(ctx context.Context, gr *topsv1.GcuResource, last *lastPass) (*state.Observation, error) {
	obs := &state.Observation{Resource: gr, Applied: last.applied, Begun: last.begun, StateTimes: r.times}
	if r.cache.pods != nil {
		obs.Cache = last.cache
	}
	if err := r.readFleet(ctx, obs); err != nil {
		return nil, err
	}
	rendered, err := r.render(ctx, obs, last)
	if err != nil {
		return nil, err
	}
	for i := range rendered {
		c := state.Component{Rendered: rendered[i]}
		if err := r.readComponent(ctx, obs, &c); err != nil {
			return nil, err
		}
		obs.Components = append(obs.Components, c)
	}
	if obs.Owned, err = r.readOwned(ctx, gr); err != nil {
		return nil, err
	}
	pods := podReader{r.Reader, r.APIReader, r.cache}
	if err := pods.readLeftovers(ctx, obs); err != nil {
		return nil, err
	}
	if err := (formerReader{pods, r.namespace}).read(ctx, obs); err != nil {
		return nil, err
	}
	if err := readRevisions(ctx, r.Reader, obs); err != nil {
		return nil, err
	}
	if obs.Hosts, err = r.readHosts(ctx, obs.Cache); err != nil {
		return nil, err
	}
	if obs.Others, err = r.readOthers(ctx, gr); err != nil {
		return nil, err
	}
	if obs.Excluded, err = (excludedReader{r.Reader, r.namespace}).read(ctx, gr, obs.Others); err != nil {
		return nil, err
	}
	return obs, r.readRollout(ctx, obs)
}

// render returns the components of a gr, rendered for its nodes.
func (r stateReader) render(ctx context.Context, obs *state.Observation, last *lastPass) ([]component.Rendered, error) {
	rendered, err := last.render(obs.Resource, component.Cluster{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rendered, func(c component.Rendered) bool { return c.Name == component.Toolkit })
	if i < 0 {
		return rendered, nil
	}
	wanted, live := rendered[i].PerNode, &appsv1.DaemonSet{}
	err = r.Get(ctx, client.ObjectKeyFromObject(wanted), live, client.UnsafeDisableDeepCopy)
	if denial.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading DaemonSet %s: %w", wanted.Name, err)
	}
	if err != nil || !daemonset.IsOf(live, obs.Resource) {
		live = nil
	}
	return last.render(obs.Resource, component.ClusterOf(live, wanted, obs.Nodes))
}

// readComponent reads the objects and the pods of a component.
func (r stateReader) readComponent(ctx context.Context, obs *state.Observation, c *state.Component) error {
	gr := obs.Resource
	c.Live = map[component.Ref]*metav1.PartialObjectMetadata{}
	var foreign types.UID
	for _, d := range c.Objects {
		live, err := r.readDesired(ctx, &d)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", d.Ref, err)
		}
		if ds, ok := live.(*appsv1.DaemonSet); ok && (!daemonset.IsOf(ds, gr) || state.IsOfAnother(c.Name, ds)) {
			foreign = ds.UID
		}
		if err := c.SetLive(gr, d.Ref, live); err != nil {
			return err
		}
	}
	if err := r.readReleased(ctx, c); err != nil {
		return err
	}
	return podReader{r.Reader, r.APIReader, r.cache}.read(ctx, obs, c, foreign)
}

// readReleased reads which volumes of a component were bound to a claim that is gone. The cache has only their metadata, so
// the API server is read, while a Deployment lacks replicas.
func (r stateReader) readReleased(ctx context.Context, c *state.Component) error {
	if !c.LacksReplicas() {
		return nil
	}
	for _, d := range c.Objects {
		if d.Ref.Kind != "PersistentVolume" || c.Live[d.Ref] == nil {
			continue
		}
		volume := &corev1.PersistentVolume{}
		if err := r.APIReader.Get(ctx, client.ObjectKey{Name: d.Ref.Name}, volume); denial.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s from the API server: %w", d.Ref, err)
		}
		if volume.Status.Phase == corev1.VolumeReleased {
			c.Released = append(c.Released, state.Owned{Ref: d.Ref, UID: volume.UID, Version: volume.ResourceVersion, Component: c.Name, Deleting: volume.DeletionTimestamp != nil})
		}
	}
	return nil
}

// readDesired reads an object of a component. Of a binding, any other one that grants the same takes its place: the shipped one
// is restored by each upgrade of the operator.
func (r stateReader) readDesired(ctx context.Context, d *component.Desired) (client.Object, error) {
	live, err := r.readObject(ctx, d.Ref)
	if d.Ref.Kind != "ClusterRoleBinding" || denial.IgnoreNotFound(err) != nil {
		return live, err
	}
	if shipped, ok := live.(*rbacv1.ClusterRoleBinding); err == nil && ok && component.Binds(d, shipped) {
		return live, nil
	}
	var list rbacv1.ClusterRoleBindingList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if component.Binds(d, &list.Items[i]) {
			return &list.Items[i], nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), d.Ref.Name)
}

// readObject reads one object: workloads and bindings in full, others only as metadata. Secrets are not cached,
// so that the operator needs no permission to list them.
func (r stateReader) readObject(ctx context.Context, ref component.Ref) (client.Object, error) {
	from := r.Reader
	if ref.Kind == "Secret" {
		from = r.APIReader
	}
	var o client.Object = ref.Metadata()
	switch {
	case ref.Workload():
		o = ref.NewWorkload()
	case ref.Kind == "ClusterRoleBinding":
		o = &rbacv1.ClusterRoleBinding{}
	}
	return o, from.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, o, client.UnsafeDisableDeepCopy)
}

// readRevisions reads the ControllerRevisions of each existing DaemonSet, including leaving ones.
func readRevisions(ctx context.Context, from client.Reader, obs *state.Observation) error {
	read := func(of component.Ref, revisions *[]*appsv1.ControllerRevision) error {
		var list appsv1.ControllerRevisionList
		if err := from.List(ctx, &list, inWorkload(of)...); err != nil {
			return fmt.Errorf("listing revisions of %s: %w", of, err)
		}
		*revisions = nil
		for i := range list.Items {
			*revisions = append(*revisions, &list.Items[i])
		}
		return nil
	}
	for i := range obs.Components {
		if c := &obs.Components[i]; c.DaemonSet != nil {
			if err := read(c.DaemonSetRef(), &c.Revisions); err != nil {
				return err
			}
		}
	}
	for _, i := range obs.Leftovers() {
		if o := &obs.Owned[i]; o.DaemonSet != nil {
			if err := read(o.Ref, &o.Revisions); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDaemonSets lists the DaemonSets that the gr created.
func (r stateReader) readDaemonSets(ctx context.Context, gr *topsv1.GcuResource) (owned []state.Owned, err error) {
	sets, err := controlledDaemonSets(ctx, r.Reader, gr)
	if err != nil {
		return nil, err
	}
	if sets, err = (ownership.Reader{Reader: r.Reader, Live: r.APIReader, Namespace: r.namespace}).CreatedBy(ctx, gr, sets); err != nil {
		return nil, err
	}
	for _, ds := range sets {
		owned = append(owned, ownedBy(ds))
		owned[len(owned)-1].DaemonSet = ds
	}
	return owned, nil
}

func ownedBy(o client.Object) state.Owned {
	return state.Owned{Ref: component.RefOf(o), UID: o.GetUID(), Component: o.GetLabels()[topsv1.LabelComponent], Deleting: o.GetDeletionTimestamp() != nil}
}

// readOwned lists the objects that carry the label of the gr and are controlled by it; of the DaemonSets only
// those that it created.
func (r stateReader) readOwned(ctx context.Context, gr *topsv1.GcuResource) ([]state.Owned, error) {
	owned, err := r.readDaemonSets(ctx, gr)
	if err != nil {
		return nil, err
	}
	lists := []client.ObjectList{&appsv1.DeploymentList{}, &batchv1.JobList{}}
	for _, kind := range metadataKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		lists = append(lists, list)
	}
	for _, list := range lists {
		if err := r.List(ctx, list, client.MatchingLabels{topsv1.LabelGcuResource: gr.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the objects of GcuResource %s: %w", gr.Name, err)
		}
		err := each(list, func(o client.Object) {
			if daemonset.IsOf(o, gr) {
				owned = append(owned, ownedBy(o))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(owned, func(a, b state.Owned) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	return owned, nil
}

// readFleet reads all nodes, sorted by name, shared with the cache.
func (r stateReader) readFleet(ctx context.Context, obs *state.Observation) error {
	if obs.Cache != nil {
		obs.CachedNodes = obs.Cache.Nodes(r.cache.events.since(nodesKey), r.cache.nodes.List)
		obs.Nodes = obs.CachedNodes.List
		return nil
	}
	var err error
	obs.Nodes, err = readNodes(ctx, r.Reader)
	return err
}

// readHosts reads the host facts in the NodeUpgrades.
func (r stateReader) readHosts(ctx context.Context, cache *state.Cache) (map[string]state.Host, error) {
	read := func() (map[string]state.Host, error) {
		var list topsv1.NodeUpgradeList
		if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing NodeUpgrades: %w", err)
		}
		hosts := make(map[string]state.Host, len(list.Items))
		for i := range list.Items {
			hosts[list.Items[i].Name] = state.HostOf(&list.Items[i])
		}
		return hosts, nil
	}
	if cache == nil {
		return read()
	}
	return cache.Hosts(r.cache.events.hostsSince(r.now()), read)
}

// readOperating reads on which nodes an operation of the rollout of the gr is not over.
func (r stateReader) readOperating(ctx context.Context, from client.Reader, obs *state.Observation) error {
	var list topsv1.NodeUpgradeList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	obs.Operating = plan.Operating(list.Items, client.ObjectKey{Namespace: r.namespace, Name: obs.Resource.Name}.String(), obs.Nodes)
	return nil
}

// readOthers returns the other grs, oldest first.
func (r stateReader) readOthers(ctx context.Context, gr *topsv1.GcuResource) ([]topsv1.GcuResource, error) {
	var grs topsv1.GcuResourceList
	if err := r.List(ctx, &grs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing GcuResources: %w", err)
	}
	others := slices.DeleteFunc(grs.Items, func(other topsv1.GcuResource) bool { return other.UID == gr.UID })
	slices.SortFunc(others, func(a, b topsv1.GcuResource) int {
		if state.Older(&a, &b) {
			return -1
		}
		return 1
	})
	return others, nil
}

// readRollout reads the state of the rollout of a gr.
func (r stateReader) readRollout(ctx context.Context, obs *state.Observation) error {
	rollout, err := readRollout(ctx, r.Reader, r.namespace, obs.Resource.Name)
	if err != nil {
		return err
	}
	obs.Rollout = status.RolloutOfNewestSpec(rollout, obs)
	return nil
}
