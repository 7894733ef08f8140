package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// retryStaleCache is when to decide again after the cache was found stale.
const retryStaleCache = 50 * time.Millisecond

// isStaleCache reports whether every error means that something changed since it was read. Then
// the next pass decides on the current state.
func isStaleCache(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !isStaleCache(e) {
				return false
			}
		}
		return true
	}
	return errors.Is(err, podreplace.ErrChanged) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// access is how the steps of a pass read and write the cluster: through the cache, or live.
type access struct {
	client.Client
	live client.Reader
}

func (a access) replacer() podreplace.Replacer {
	return podreplace.Replacer{Client: a.Client, Live: a.live}
}

// liveDaemonSet reads a DaemonSet live, and reports whether it is still the observed one, with
// the same settings.
func (a access) liveDaemonSet(ctx context.Context, m observed.Member) (live *appsv1.DaemonSet, same bool, err error) {
	live, same, err = a.replacer().Recheck(ctx, m.DaemonSet)
	return live, same && m.SameSettings(live), err
}

// liveRevisions reads the revisions of a DaemonSet live.
func (a access) liveRevisions(ctx context.Context, m observed.Member, live *appsv1.DaemonSet) ([]*appsv1.ControllerRevision, error) {
	selector, err := metav1.LabelSelectorAsSelector(live.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of DaemonSet %s: %w", m.Key(), err)
	}
	var list appsv1.ControllerRevisionList
	if err := a.live.List(ctx, &list, client.InNamespace(live.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions of DaemonSet %s again: %w", m.Key(), err)
	}
	return observed.ByName(list.Items), nil
}

// unchangedDaemonSet reads a DaemonSet live. It returns podreplace.ErrChanged if it is no longer
// as observed.
func (a access) unchangedDaemonSet(ctx context.Context, m observed.Member) (*appsv1.DaemonSet, error) {
	live, same, err := a.liveDaemonSet(ctx, m)
	if err != nil {
		return nil, err
	}
	if !same || live.Annotations[topsv1.AnnotationRevision] != m.DaemonSet.Annotations[topsv1.AnnotationRevision] {
		return nil, podreplace.ErrChanged
	}
	return live, nil
}

// parallelism bounds the concurrent requests of one pass.
const parallelism = 16

// inParallel calls work for 0..n-1, at most parallelism at once, and joins the errors.
func inParallel(ctx context.Context, n int, work func(i int) error) error {
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

// soonest returns the shorter of two delays, where 0 means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
