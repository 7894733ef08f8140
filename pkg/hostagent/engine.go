package hostagent

import (
	"context"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

const (
	// podUIDLabel is on every container that the kubelet makes.
	podUIDLabel = "io.kubernetes.pod.uid"
	// answerTimeout is how long one answer of a daemon may take.
	answerTimeout = 10 * time.Second
)

// engineStatus is what a daemon answers.
type engineStatus struct {
	task.RuntimeFacts
	// imageStore is the directory of the host with the images; "" when unknown.
	imageStore string
}

// engine is one container engine behind its socket.
type engine interface {
	// status asks the daemon; an error means that it does not answer, or does not
	// run pods.
	status(context.Context) (engineStatus, error)
	// runningContainers counts the running containers of a pod.
	runningContainers(ctx context.Context, podUID string) (int, error)
	// image returns the id of an image on this node, "" when it is not there.
	image(ctx context.Context, reference string) (string, error)
	// pull pulls an image and returns its id.
	pull(ctx context.Context, reference string, credential authn.AuthConfig) (string, error)
	close() error
}
