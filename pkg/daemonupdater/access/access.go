// Package access reads and writes the cluster for the steps of a pass: through the cache, or past
// it where a stale cache must not decide.
//
//	LiveDaemonSet, LiveRevisions   read again what a decision depends on, right before it is carried out
//	CorrectSlots                   corrects the ledger after etcd was restored from a backup
//	IsStale                        reports whether a pass failed only because its view was old
//	InParallel                     bounds the requests of a pass
//
// Package observed decides what is compared with the observed state.
package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/ownership"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// IsStale reports whether every error means that something changed since it was read. Then
// the next pass decides on the current state.
func IsStale(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !IsStale(e) {
				return false
			}
		}
		return true
	}
	return errors.Is(err, podreplace.ErrChanged) || denial.IsConflict(err) || denial.IsAlreadyExists(err)
}

// StrictFields makes the API server reject a write with a field that an older CRD would drop: what is acted on must
// be stored.
const StrictFields = client.FieldValidation(metav1.FieldValidationStrict)

// Cluster reads and writes the cluster.
type Cluster struct {
	// Client reads from the cache, and writes.
	client.Client
	// Live reads past the cache.
	Live client.Reader
}

// Replacer returns a Replacer of pods.
func (c Cluster) Replacer() podreplace.Replacer {
	return podreplace.Replacer{Client: c.Client, Live: c.Live}
}

// LiveDaemonSet reads a DaemonSet live, and reports whether it is still the observed one, with
// the same settings.
func (c Cluster) LiveDaemonSet(ctx context.Context, m observed.Member) (live *appsv1.DaemonSet, same bool, err error) {
	live, same, err = c.Replacer().Recheck(ctx, m.DaemonSet)
	return live, same && m.SameSettings(live), err
}

// Policy reads the UpgradePolicy with a name, nil if there is none.
func Policy(ctx context.Context, reader client.Reader, name string) (*topsv1.UpgradePolicy, error) {
	if name == "" {
		return nil, nil
	}
	var policy topsv1.UpgradePolicy
	switch err := reader.Get(ctx, client.ObjectKey{Name: name}, &policy); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting UpgradePolicy %s: %w", name, err)
	}
	return &policy, nil
}

// Plan reads the UpgradePlan with a name and checks it against the rules of a book.
func Plan(ctx context.Context, reader client.Reader, name string, book *upgradeplan.LogicBook) (p observed.Plan, err error) {
	if name == "" {
		return p, nil
	}
	var object topsv1.UpgradePlan
	switch err := reader.Get(ctx, client.ObjectKey{Name: name}, &object, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return p, nil
	case err != nil:
		return p, fmt.Errorf("getting UpgradePlan %s: %w", name, err)
	}
	p.Read, p.Invalid = planfile.Read(&object, *book)
	return p, nil
}

// AnyNeedsRestart reports whether the container runtime of some node has to be restarted.
func (c Cluster) AnyNeedsRestart(ctx context.Context) (bool, error) {
	var upgrades topsv1.NodeUpgradeList
	if err := c.List(ctx, &upgrades, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing NodeUpgrades: %w", err)
	}
	return slices.ContainsFunc(upgrades.Items, func(u topsv1.NodeUpgrade) bool { return u.Status.Host.NeedsRestart() }), nil
}

// LiveRevisions reads the revisions of a DaemonSet live.
func (c Cluster) LiveRevisions(ctx context.Context, live *appsv1.DaemonSet) ([]*appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	err := ownership.ListSelected(ctx, c.Live, &list, live)
	return observed.ByName(list.Items), err
}

// LivePods reads the pods that the selector of a DaemonSet selects live, with any controller.
func (c Cluster) LivePods(ctx context.Context, m observed.Member, options ...client.ListOption) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := ownership.ListSelected(ctx, c.Live, &list, m.DaemonSet, options...)
	return list.Items, err
}

// UnchangedDaemonSet reads a DaemonSet live. It returns podreplace.ErrChanged if the DaemonSet is no longer
// as observed.
func (c Cluster) UnchangedDaemonSet(ctx context.Context, m observed.Member) (*appsv1.DaemonSet, error) {
	live, same, err := c.LiveDaemonSet(ctx, m)
	if err != nil {
		return nil, err
	}
	if !same || live.Annotations[topsv1.AnnotationRevision] != m.DaemonSet.Annotations[topsv1.AnnotationRevision] {
		return nil, podreplace.ErrChanged
	}
	return live, nil
}

// Parallelism bounds the concurrent requests of one pass.
const Parallelism = 16

// InParallel calls work for 0..n-1, at most Parallelism at once. It returns their errors joined with the error of the
// context.
func InParallel(ctx context.Context, n int, work func(i int) error) error {
	var mu sync.Mutex
	var failed []error
	workqueue.ParallelizeUntil(ctx, Parallelism, n, func(i int) {
		if err := work(i); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		}
	})
	return errors.Join(append(failed, ctx.Err())...)
}
