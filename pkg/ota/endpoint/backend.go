package endpoint

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// CallTimeout bounds the time of a Backend's calls to the API server for one request.
const CallTimeout = 5 * time.Second

// responseTimeout bounds a request: it waits for the previous one, and then makes its own
// calls.
const responseTimeout = 2*CallTimeout + 2*time.Second

// Backend carries out the requests. Its errors are of type *request.Refusal.
type Backend interface {
	// Pods returns the pods of this node; stale is when they were seen, nil if they are
	// live.
	Pods(ctx context.Context) (pods *corev1.PodList, stale *metav1.Time, err error)
	// UpgradePod requests the upgrade of a pod.
	UpgradePod(ctx context.Context, namespace, pod string) error
	// PullImages starts to pull the images of the newest revision of a pod.
	PullImages(ctx context.Context, namespace, pod string) error
	// Status returns the state of this node.
	Status(ctx context.Context) response.Status
	// Upgrade starts an operation for what it is Wanted for, or returns the one that was started
	// with the same key; "" is no key.
	Upgrade(ctx context.Context, operation request.Operation, key string) (response.Operation, error)
	// Operations returns the operations, newest first.
	Operations() response.Operations
	// Operation returns one operation, and a channel that is closed when it may have
	// changed.
	Operation(id string) (response.Operation, <-chan struct{}, error)
	// Rollback withdraws the requests that have not started, or else starts an operation that restores the previous
	// revision; key is as for Upgrade.
	Rollback(ctx context.Context, operation request.Operation, key string) (response.Operation, error)
	// Hold excludes this node from upgrades, and Release ends that.
	Hold(ctx context.Context, message string) (response.Hold, error)
	Release(ctx context.Context) (response.Hold, error)
}
