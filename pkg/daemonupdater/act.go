package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// parallelism bounds the requests of one pass that are under way at once.
const parallelism = 16

// errMoved says that the world is not as the pass saw it; the next pass decides
// again.
var errMoved = errors.New("changed since it was read")

// undone returns the deletions that this process has not made already; of those it
// has, the cache may not show it yet.
func (r *Reconciler) undone(deletions []rollout.Deletion) []rollout.Deletion {
	return slices.DeleteFunc(slices.Clone(deletions), func(d rollout.Deletion) bool { return r.deleted.has(d.UID) })
}

// deletePods deletes pods, each as the ledger names it. A DaemonSet that is not
// unchanged, by recheck, loses no pod. One failing call does not keep the others
// from being made.
func (r *Reconciler) deletePods(ctx context.Context, o *observation, deletions []rollout.Deletion, unchanged map[int]bool) error {
	moved := false
	err := each(ctx, len(deletions), func(i int) error {
		if !unchanged[deletions[i].Member] {
			return nil
		}
		return r.deletePod(ctx, o, deletions[i])
	})
	for _, same := range unchanged {
		moved = moved || !same
	}
	if err == nil && moved {
		return errMoved
	}
	return err
}

// recheck tells for each member index in the deletions whether the live
// DaemonSet, read past the cache, is still the one that was observed, and still
// controlled. Its newest revision is looked for once per view: another one takes
// another generation, and that another view.
func (r *Reconciler) recheck(ctx context.Context, o *observation, deletions []rollout.Deletion) (map[int]bool, error) {
	unchanged := map[int]bool{}
	for _, d := range deletions {
		if _, done := unchanged[d.Member]; done {
			continue
		}
		m := o.members[d.Member]
		live, same, err := r.readAgain(ctx, m)
		if err != nil {
			return nil, err
		}
		if same && !o.view.confirmed[d.Member] {
			revisions, err := r.liveRevisions(ctx, m, live)
			if err != nil {
				return nil, err
			}
			same = sameTarget(m, live, revisions)
			o.view.confirmed[d.Member] = same
		}
		unchanged[d.Member] = same
	}
	return unchanged, nil
}

// replacer replaces pods.
func (r *Reconciler) replacer() podreplace.Replacer {
	return podreplace.Replacer{Client: r.Client, Live: r.Live}
}

// readAgain reads a DaemonSet past the cache, and reports whether it is still there
// and controlled as it was observed.
func (r *Reconciler) readAgain(ctx context.Context, m member) (live *appsv1.DaemonSet, same bool, err error) {
	live, same, err = r.replacer().Recheck(ctx, m.daemonSet)
	return live, same && sameSettings(m.daemonSet, live), err
}

// liveRevisions reads the revisions of a DaemonSet past the cache.
func (r *Reconciler) liveRevisions(ctx context.Context, m member, live *appsv1.DaemonSet) ([]*appsv1.ControllerRevision, error) {
	selector, err := metav1.LabelSelectorAsSelector(live.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of DaemonSet %s: %w", m.key(), err)
	}
	var list appsv1.ControllerRevisionList
	if err := r.Live.List(ctx, &list, client.InNamespace(live.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions of DaemonSet %s again: %w", m.key(), err)
	}
	return pointers(list.Items, func(c *appsv1.ControllerRevision) string { return c.Name }), nil
}

// sameTarget reports whether the newest revision of a DaemonSet is still the one
// that was observed: the cache of revisions may be behind that of pods, and then
// a pod at the newest revision looks outdated.
func sameTarget(m member, live *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision) bool {
	observed, err1 := daemonset.TargetRevision(m.daemonSet, m.revisions)
	now, err2 := daemonset.TargetRevision(live, revisions)
	return err1 == nil && err2 == nil && observed == now
}

// sameSettings reports whether two versions of a DaemonSet have the same upgrade annotations.
func sameSettings(observed, live *appsv1.DaemonSet) bool {
	before, err1 := daemonset.SettingsOf(observed)
	now, err2 := daemonset.SettingsOf(live)
	return err1 == nil && err2 == nil && before == now
}

func (r *Reconciler) deletePod(ctx context.Context, o *observation, d rollout.Deletion) error {
	ds := o.members[d.Member].daemonSet
	reason := deleteReasonOutdated
	if d.WasUnavailable {
		reason = deleteReasonUnavailable
	}
	log.FromContext(ctx).Info("Deleting Pod", "Pod", klog.KRef(ds.Namespace, d.Pod), "DaemonSet", klog.KObj(ds), "Node", d.Node, "reason", reason)
	deleted, err := r.replacer().Delete(ctx, podNamed(ds.Namespace, d.Pod, d.UID, d.Version))
	if deleted {
		r.deleted.add(d.UID, o.group, d.Node)
		r.Metrics.podDeleted(o.group, reason)
	}
	return err
}

// podNamed names a pod in one version.
func podNamed(namespace, name string, uid types.UID, version string) topsv1.NamedPod {
	return topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{Namespace: namespace, Name: name, UID: uid}, ResourceVersion: version}
}

// fencePods fences the pods of nodes that give a slot back unused.
func (r *Reconciler) fencePods(ctx context.Context, o *observation, now time.Time, pods []rollout.Pod) error {
	return each(ctx, len(pods), func(i int) error {
		ds := o.members[pods[i].Member].daemonSet
		log.FromContext(ctx).Info("Fencing Pod, its node gives a slot back unused", "Pod", klog.KRef(ds.Namespace, pods[i].Name))
		pod := podNamed(ds.Namespace, pods[i].Name, pods[i].UID, pods[i].Version)
		return r.replacer().Fence(ctx, pod, now, "its node gives its slot back without replacing the pod")
	})
}

// patchPod patches the conditions of a pod. One that is gone, or whose name
// another pod has, needs no patch.
func (r *Reconciler) patchPod(ctx context.Context, namespace, name string, data []byte) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := r.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, data))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("patching conditions of Pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

// patchConditions applies patches of pod conditions, and takes the nodes where
// that succeeded out of view.unmarked.
func (r *Reconciler) patchConditions(ctx context.Context, v *view, patches []podPatch) error {
	var failed sync.Map
	err := each(ctx, len(patches), func(i int) error {
		err := r.patchPod(ctx, patches[i].namespace, patches[i].name, patches[i].data)
		if err != nil {
			failed.Store(patches[i].node, true)
		}
		return err
	})
	if ctx.Err() != nil {
		return err // not all of them were tried
	}
	for _, p := range patches {
		if _, again := failed.Load(p.node); !again {
			delete(v.unmarked, p.node)
		}
	}
	return err
}

// each calls work for 0..n-1 in bounded parallel and joins the errors.
func each(ctx context.Context, n int, work func(i int) error) error {
	var mu sync.Mutex
	var failed []error
	workqueue.ParallelizeUntil(ctx, parallelism, n, func(i int) {
		if err := work(i); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		}
	})
	return errors.Join(append(failed, ctx.Err())...)
}
