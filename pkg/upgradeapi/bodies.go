package upgradeapi

import (
	"errors"
	"net/http"

	"github.com/topsops/gcu-operator/pkg/connections"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// newBodies bounds the bytes of bodies in memory: of all requests in progress, and of those of one caller.
func newBodies() *connections.Bodies {
	return &connections.Bodies{Largest: request.MaxBytes, OfOne: 4 * request.MaxBytes, All: 32 * request.MaxBytes}
}

// readBody reads the whole body of a caller's request, and nothing where a method has none. done
// must be called when the body is not needed any longer, if there is no error.
func readBody(bodies *connections.Bodies, w http.ResponseWriter, r *http.Request, caller string) (body []byte, done func(), err error) {
	body, done, err = bodies.Read(w, r, caller)
	switch {
	case err == nil:
		if body != nil {
			w.Header().Del("Connection") // it is read: see middleware.begin
		}
		return body, done, nil
	case errors.Is(err, connections.ErrTooLarge):
		return nil, nil, request.Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", request.MaxBytes)
	case errors.Is(err, connections.ErrCallerFull):
		return nil, nil, request.Refuse(http.StatusTooManyRequests, "your other requests in progress have large bodies: wait for their responses")
	case errors.Is(err, connections.ErrFull):
		return nil, nil, request.Refuse(http.StatusServiceUnavailable, "the bodies of all requests in progress are too large together: wait a second")
	}
	return nil, nil, request.BadRequest("the body could not be read: send the request again")
}
