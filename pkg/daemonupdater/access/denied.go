package access

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
)

// Deniable is one kind of requests that may be denied.
type Deniable struct {
	*deletion.Attempts
	// Changed receives the nodes, which are read again.
	Changed *watch.ChangedNodes
}

// Postpone has a denied request about a node or one of its pods, by UID, made again later. what is the message of
// the log, and about are keys and values for it.
func (d Deniable) Postpone(ctx context.Context, g observed.Group, node string, uid types.UID, err error, now time.Time, what string, about ...any) {
	log.FromContext(ctx).Info(what, append(about, "Node", node, "cause", err.Error())...)
	d.Denied(g, node, uid, err, now)
	d.Changed.Add(g, node)
}
