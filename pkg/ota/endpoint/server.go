package endpoint

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// drainTimeout is longer than any request except one with ?wait, which ends at shutdown.
const drainTimeout = responseTimeout + 2*time.Second

// Serve serves all listeners until ctx is done, lets requests in progress finish, and closes
// them. It returns nil after such a shutdown, and an error if one could not be
// served or drained.
func Serve(ctx context.Context, listeners []guard.Listener, handler http.Handler, log logr.Logger) error {
	return guard.Serve(ctx, guard.Options{
		Listeners: listeners, Handler: handler, Deny: Deny, DrainTimeout: drainTimeout, Clock: clock.RealClock{}, Log: log,
	})
}
