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

// RequestKind is a kind of request that may be denied.
type RequestKind struct {
	*deletion.Attempts
	// Changed receives the nodes to read again.
	Changed *watch.ChangedNodes
}

// Postpone logs a denied request about a node or one of its pods, by UID, and schedules a retry. msg is the log
// message, keysAndValues are added to it.
func (d RequestKind) Postpone(ctx context.Context, g observed.Group, node string, uid types.UID, err error, now time.Time, msg string, keysAndValues ...any) {
	log.FromContext(ctx).Info(msg, append(keysAndValues, "Node", node, "cause", err.Error())...)
	d.Denied(g, node, uid, err, now)
	d.Changed.Add(g, node)
}
