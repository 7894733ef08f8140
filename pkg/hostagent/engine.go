package hostagent

import (
	"context"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

const (
	// podUIDLabel is on every container created by the kubelet.
	podUIDLabel = "io.kubernetes.pod.uid"
	// responseTimeout is the timeout of one response of a daemon, and of the kernel.
	responseTimeout = 10 * time.Second
)

// engineStatus is the status reported by a daemon.
type engineStatus struct {
	task.RuntimeFacts
	// imageStore is the host directory of the images; "" when unknown.
	imageStore string
}

// engine is a client of one container engine.
type engine interface {
	// status returns the daemon's status; an error means that it does not respond, or does
	// not run pods.
	status(context.Context) (engineStatus, error)
	// runningContainers counts the running containers of a pod.
	runningContainers(ctx context.Context, podUID string) (int, error)
	// image returns the id of an image on this node, "" when it is absent.
	image(ctx context.Context, reference string) (string, error)
	// pull pulls an image and returns its id.
	pull(ctx context.Context, reference string, credential authn.AuthConfig) (string, error)
	close() error
}
