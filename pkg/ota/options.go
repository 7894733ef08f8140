package ota

import (
	"context"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Options configure an Inbox. All fields are required.
type Options struct {
	// NodeName is the name of this node.
	NodeName string
	// StateDirectory holds the journals; it is created if needed.
	StateDirectory string
	// Version of the agent, its Capabilities and whether it RestartsRuntime, for status.agent.
	Version         string
	Capabilities    []string
	RestartsRuntime bool
	Cluster         Cluster
	Puller          Puller
	Clock           clock.Clock
	Log             logr.Logger
}

// FieldManager owns status.requests, status.pulls and status.agent of a NodeUpgrade.
const FieldManager = "gcu-node-agent"

// Cluster is the part of the API server that the endpoint uses (pkg/nodeapi). Every read is
// live. Errors are those of k8s.io/apimachinery/pkg/api/errors. Without a connection, calls
// return an error at the latest shortly after the context's deadline.
type Cluster interface {
	// Pod returns one pod.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Pods returns the pods bound to a node.
	Pods(ctx context.Context, node string) (*corev1.PodList, error)
	// Node returns a node.
	Node(ctx context.Context, name string) (*corev1.Node, error)
	// DaemonSet returns a DaemonSet.
	DaemonSet(ctx context.Context, namespace, name string) (*appsv1.DaemonSet, error)
	// ControllerRevision returns a ControllerRevision.
	ControllerRevision(ctx context.Context, namespace, name string) (*appsv1.ControllerRevision, error)
	// NodeUpgrade returns the NodeUpgrade of a node.
	NodeUpgrade(ctx context.Context, node string) (*topsv1.NodeUpgrade, error)
	// CreateNodeUpgrade creates a NodeUpgrade as manager and returns it as created.
	CreateNodeUpgrade(ctx context.Context, manager string, nodeUpgrade *topsv1.NodeUpgrade) (*topsv1.NodeUpgrade, error)
	// ApplyStatus applies name, UID and status of a NodeUpgrade server-side as manager:
	// fields that manager owns and the status lacks are removed.
	ApplyStatus(ctx context.Context, manager string, nodeUpgrade *topsv1.NodeUpgrade) error
}

// Puller pulls images through the container runtime of this node (pkg/hosttasks).
type Puller interface {
	// Pull pulls the missing images of a target, and returns when the pull has ended. A
	// failed pull may be repeated under its id. An error means that it was not started.
	Pull(ctx context.Context, id string, target topsv1.OperationTarget) error
	// Pulled returns the recorded result of the last pull of an id, or nil.
	Pulled(id string) *topsv1.HostTaskResult
}
