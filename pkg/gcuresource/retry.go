package gcuresource

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/topsops/gcu-operator/pkg/denial"
)

const (
	// failureRetry is how often a failure that a person has to fix is checked again: no event
	// reports when a foreign object is deleted.
	failureRetry = 30 * time.Second
	// staleRetry is how soon a pass is repeated after its gr or node changed under it.
	staleRetry = 200 * time.Millisecond
	// firstRetry is how soon a failed pass is repeated. The delay doubles each time, up to
	// failureRetry: no event reports when an API server has recovered.
	firstRetry = 5 * time.Millisecond
	// passTimeout bounds a pass, so that a call without a response does not block a gr forever.
	passTimeout = time.Minute
)

// retryOptions returns the options of a controller that survives an unhealthy API server.
func retryOptions() controller.Options {
	return controller.Options{
		ReconciliationTimeout: passTimeout,
		RateLimiter:           workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, failureRetry),
	}
}

// stale reports whether an error means that the cache is stale: the next pass sees the current
// state.
func stale(err error) bool { return denial.IsConflict(err) || denial.IsAlreadyExists(err) }

// locked returns a patch that fails if the object changed since it was read.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
