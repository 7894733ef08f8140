package gcuresource

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// failureRetry is how often a failure is looked at again that somebody has
	// to mend: nothing tells when an object of somebody else goes.
	failureRetry = 30 * time.Second
	// staleRetry is how soon a pass is repeated whose gr or node had changed under it.
	staleRetry = 200 * time.Millisecond
	// firstRetry is how soon a failed pass is repeated; each time after takes
	// twice as long, up to failureRetry: nothing tells when an API server is well again.
	firstRetry = 5 * time.Millisecond
	// passTimeout bounds a pass, so that a call without an answer does not hold up
	// a gr for ever.
	passTimeout = time.Minute
)

// retryOptions are the options of a controller that outlives an API server in trouble.
func retryOptions() controller.Options {
	return controller.Options{
		ReconciliationTimeout: passTimeout,
		RateLimiter:           workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, failureRetry),
	}
}

// stale reports whether an error means that the cache is behind: the next pass
// sees what is there.
func stale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// locked is a patch that fails when the object changed since it was read.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
