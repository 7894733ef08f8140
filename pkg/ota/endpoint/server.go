package endpoint

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// drainTimeout is longer than any request may take.
const drainTimeout = answerTimeout + 2*time.Second

// Serve answers requests at all doors until ctx is done, lets those that are under
// way finish, and closes the listeners. It returns nil after such an end and an
// error when one door could not be served.
func Serve(ctx context.Context, doors []guard.Door, handler http.Handler, log logr.Logger) error {
	return guard.Serve(ctx, guard.Options{
		Doors: doors, Handler: handler, Deny: Deny, DrainTimeout: drainTimeout, Clock: clock.RealClock{}, Log: log,
	})
}
