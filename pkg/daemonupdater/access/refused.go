package access

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// IsRefused reports whether the API server refused a request about an object, or has a webhook for it
// that cannot be called: it is about that object, so that others go on.
func IsRefused(err error) bool { return podreplace.IsDenied(err) || apierrors.IsInternalError(err) }

// Refused is one kind of requests that may be refused.
type Refused struct {
	*deletion.Attempts
	// Changed receives the nodes, which are read again.
	Changed *watch.ChangedNodes
}

// Postpone has a refused request about a node or one of its pods, by UID, made again later. what is the message of the log.
func (r Refused) Postpone(ctx context.Context, g observed.Group, node string, about types.UID, what string, err error, now time.Time) {
	log.FromContext(ctx).Info(what, "Node", node, "UID", about, "cause", err.Error())
	r.Denied(g, node, about, err, now)
	r.Changed.Add(g, node)
}
