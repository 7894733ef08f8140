package endpoint

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/ota/answer"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// CallTimeout bounds what a Backend may take for one request at the API server.
const CallTimeout = 5 * time.Second

// answerTimeout bounds a request: it waits for the one before it, and then makes
// its own calls.
const answerTimeout = 2*CallTimeout + 2*time.Second

// Backend does what is asked for here. Its errors are of type *request.Refusal.
type Backend interface {
	// Pods returns the pods of this node; stale is when they were seen, nil for now.
	Pods(ctx context.Context) (pods *corev1.PodList, stale *metav1.Time, err error)
	// UpgradePod requests the upgrade of a pod.
	UpgradePod(ctx context.Context, namespace, pod string) error
	// PullImages begins to pull the images of the newest revision of a pod.
	PullImages(ctx context.Context, namespace, pod string) error
	// Status says how this node stands.
	Status(ctx context.Context) answer.Status
	// Upgrade begins an operation, or returns the one that an order with the same key
	// began; "" is no key.
	Upgrade(ctx context.Context, order request.Order, key string) (answer.Operation, error)
	// Operations returns the operations there are, the newest first.
	Operations() answer.Operations
	// Operation returns one operation, and what is closed when there may be news of it.
	Operation(id string) (answer.Operation, <-chan struct{}, error)
	// Withdraw withdraws what has not started.
	Withdraw(ctx context.Context) (answer.Operation, error)
	// Hold and Release tell that this node is to be left alone, and not any more.
	Hold(ctx context.Context, message string) (answer.Hold, error)
	Release(ctx context.Context) (answer.Hold, error)
}
