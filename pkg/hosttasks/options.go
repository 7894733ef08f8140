package hosttasks

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// FieldManager owns status.host of a NodeUpgrade.
const FieldManager = "gcu-node-agent-host"

// callTimeout bounds one call to the API server.
const callTimeout = 5 * time.Second

// Cluster is the worker's access to the API server (pkg/nodeapi). Every read is live. Errors
// are those of k8s.io/apimachinery/pkg/api/errors.
type Cluster interface {
	// Node returns a node.
	Node(ctx context.Context, name string) (*corev1.Node, error)
	// NodeUpgrade returns the NodeUpgrade of a node.
	NodeUpgrade(ctx context.Context, node string) (*topsv1.NodeUpgrade, error)
	// ApplyStatus applies name, UID and status of a NodeUpgrade server-side as manager:
	// fields that manager owns and the status lacks are removed.
	ApplyStatus(ctx context.Context, manager string, nodeUpgrade *topsv1.NodeUpgrade) error
	// Secret returns a Secret.
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Executor executes tasks on the host, and keeps their results: a hostagent.Executor.
type Executor interface {
	// Unended returns the requests that observe restarts that have begun and not ended.
	Unended() []task.Request
	// Execute executes a task, or continues it, and returns its result.
	Execute(ctx context.Context, request task.Request) (task.Result, error)
	// Facts returns the current state of the host.
	Facts(ctx context.Context, wanted task.Engine) (task.Facts, error)
	// Results returns the results of all recorded tasks.
	Results() []task.Result
}

// Options configures a Worker. All fields are required, except where noted.
type Options struct {
	// NodeName is the name of this node.
	NodeName string
	// Engine of this node; Auto when empty.
	Engine task.Engine
	// RestartAllowed is --restart-runtime: false leaves restarts to the administrator.
	RestartAllowed bool
	// Executor executes the tasks, for this worker only.
	Executor Executor
	Cluster  Cluster
	Clock    clock.Clock
	// Ahead returns how far Clock is ahead of the API server's clock at a time; nil means not at all.
	Ahead func(now time.Time) time.Duration
	Log   logr.Logger
}
