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
const drainTimeout = answerTimeout + 2*time.Second

// Serve serves all doors until ctx is done, lets requests in progress finish, and closes
// the listeners. It returns nil after such a shutdown, and an error if a door could not be
// served or drained.
func Serve(ctx context.Context, doors []guard.Door, handler http.Handler, log logr.Logger) error {
	return guard.Serve(ctx, guard.Options{
		Doors: doors, Handler: handler, Deny: Deny, DrainTimeout: drainTimeout, Clock: clock.RealClock{}, Log: log,
	})
}
