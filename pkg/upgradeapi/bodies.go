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

// newResponses bounds the bytes of responses in memory until they are sent, which a client may put off for responseTimeout. That of a plan's
// result has 600 bytes for each node of a fleet.
func newResponses() *connections.Bodies {
	return &connections.Bodies{OfOne: 16 << 20, All: 64 << 20}
}

// roomFor makes room for a response. done must be called when it is sent, if there is no error.
func roomFor(responses *connections.Bodies, caller string, size int) (done func(), err error) {
	done, err = responses.Reserve(caller, int64(size))
	switch {
	case errors.Is(err, connections.ErrCallerFull):
		return nil, request.Refuse(http.StatusTooManyRequests, "other responses to you are large and not read yet: read them first")
	case err != nil:
		return nil, request.Refuse(http.StatusServiceUnavailable, "the responses that are being sent are too large together: wait a second")
	}
	return done, nil
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
