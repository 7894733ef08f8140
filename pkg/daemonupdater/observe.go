package daemonupdater

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// controllerUID indexes objects by the UID of their controller.
const controllerUID = ".metadata.controller.uid"

// observe reads what one pass over a group depends on, from the caches, all but
// its nodes.
func (r *Reconciler) observe(ctx context.Context, g Group) (*observation, error) {
	o := &observation{group: g, home: r.Node}
	daemonSets, err := daemonSetsOf(ctx, r, g)
	if err != nil || len(daemonSets) == 0 {
		return o, err
	}
	for _, ds := range daemonSets {
		o.members = append(o.members, member{daemonSet: ds})
	}
	if o.rollout, err = r.readRollout(ctx, o); err != nil {
		return nil, err
	}
	if o.foreign() {
		return o, nil
	}
	for i := range o.members {
		if err := r.readRevisions(ctx, &o.members[i]); err != nil {
			return nil, err
		}
	}
	o.policy, err = namedPolicy(ctx, r, o)
	return o, err
}

// namedPolicy returns the policy the group's settings name, nil when there is none.
func namedPolicy(ctx context.Context, r client.Reader, o *observation) (*topsv1.UpgradePolicy, error) {
	settings, _ := settingsOf(o)
	if settings.Policy == "" {
		return nil, nil
	}
	var policy topsv1.UpgradePolicy
	err := r.Get(ctx, client.ObjectKey{Name: settings.Policy}, &policy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting UpgradePolicy %s: %w", settings.Policy, err)
	}
	return &policy, nil
}

func (r *Reconciler) nodeUpgrades(ctx context.Context) ([]*topsv1.NodeUpgrade, error) {
	var list topsv1.NodeUpgradeList
	if err := r.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	return pointers(list.Items, func(u *topsv1.NodeUpgrade) string { return u.Name }), nil
}

// daemonSetsOf returns the DaemonSets of a group in the order of replacement;
// those being deleted do not belong to it any more.
func daemonSetsOf(ctx context.Context, r client.Reader, g Group) ([]*appsv1.DaemonSet, error) {
	if g.Kind == kindDaemonSet {
		var ds appsv1.DaemonSet
		err := r.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: g.Name}, &ds)
		if apierrors.IsNotFound(err) || (err == nil && (ds.DeletionTimestamp != nil || groupOf(&ds) != g)) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("getting DaemonSet %s: %w", g, err)
		}
		return []*appsv1.DaemonSet{&ds}, nil
	}
	var all appsv1.DaemonSetList
	if err := r.List(ctx, &all, client.MatchingLabels{topsv1.LabelGcuResource: g.Name}); err != nil {
		return nil, fmt.Errorf("listing DaemonSets of GcuResource %s: %w", g, err)
	}
	var list []*appsv1.DaemonSet
	for i := range all.Items {
		if ds := &all.Items[i]; ds.DeletionTimestamp == nil && groupOf(ds) == g {
			list = append(list, ds)
		}
	}
	sortMembers(list)
	return list, nil
}

func (r *Reconciler) readRevisions(ctx context.Context, m *member) error {
	var revisions appsv1.ControllerRevisionList
	if err := r.List(ctx, &revisions, client.InNamespace(m.daemonSet.Namespace),
		client.MatchingFields{controllerUID: string(m.daemonSet.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing ControllerRevisions of DaemonSet %s: %w", m.key(), err)
	}
	m.revisions = pointers(revisions.Items, func(c *appsv1.ControllerRevision) string { return c.Name })
	return nil
}

// pointers returns pointers to the elements, sorted by name.
func pointers[T any](items []T, name func(*T) string) []*T {
	list := make([]*T, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	slices.SortFunc(list, func(a, b *T) int { return cmp.Compare(name(a), name(b)) })
	return list
}

// readRollout returns the group's DaemonRollout as last written: from memory
// while the cache still shows what the last write was based on, else from the
// cache. A group without one gets an empty one to be created.
func (r *Reconciler) readRollout(ctx context.Context, o *observation) (*topsv1.DaemonRollout, error) {
	key := o.group.rolloutKey(r.Namespace)
	var cached topsv1.DaemonRollout
	err := r.Get(ctx, key, &cached)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("getting DaemonRollout %s: %w", key, err)
	}
	if last, ok := r.written[o.group]; ok && slices.Contains(last.basedOn, cached.ResourceVersion) {
		gone, err := r.isGone(ctx, last)
		if err != nil || !gone {
			o.unseen = cached.ResourceVersion == ""
			return last.rollout.DeepCopy(), err
		}
		delete(r.written, o.group)
	}
	if err == nil {
		r.caughtUp(o.group)
		return &cached, nil
	}
	return newRollout(o, key), nil
}

// isGone reports whether a rollout that this process created, and that the cache
// should show by now, was deleted by somebody.
func (r *Reconciler) isGone(ctx context.Context, last writtenRollout) (bool, error) {
	if !slices.Contains(last.basedOn, "") || r.Clock().Sub(last.at) < cacheLag {
		return false, nil
	}
	var live topsv1.DaemonRollout
	key := client.ObjectKeyFromObject(last.rollout)
	err := r.Live.Get(ctx, key, &live)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for DaemonRollout %s: %w", key, err)
	}
	return err != nil || live.UID != last.rollout.UID, nil
}

func newRollout(o *observation, key client.ObjectKey) *topsv1.DaemonRollout {
	owner := metav1.NewControllerRef(o.members[0].daemonSet, appsv1.SchemeGroupVersion.WithKind(kindDaemonSet))
	if ref := gcuResourceOwner(o.members[0].daemonSet); ref != nil {
		owner = ref.DeepCopy()
	}
	owner.BlockOwnerDeletion = nil
	return &topsv1.DaemonRollout{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:          map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: o.group.Kind, Name: o.group.Name}},
	}
}
