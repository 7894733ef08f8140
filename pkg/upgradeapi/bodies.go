package upgradeapi

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

const (
	// maxBodies and maxBodiesOfOne bound the bytes of bodies in memory: of all requests in
	// progress, and of those of one caller.
	maxBodies      = 32 * request.MaxBytes
	maxBodiesOfOne = 4 * request.MaxBytes
)

// bodies bounds the bytes of bodies in memory. It is safe for concurrent use; the zero value is
// ready.
type bodies struct {
	mutex sync.Mutex
	total int64
	of    map[string]int64
}

// read reads the whole body of a caller's request, and nothing where a method has none. done
// must be called when the body is not needed any longer, if there is no error.
func (b *bodies) read(w http.ResponseWriter, r *http.Request, caller string) (body []byte, done func(), err error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.ContentLength == 0 {
		return nil, func() {}, nil
	}
	size := r.ContentLength
	if size < 0 || size > request.MaxBytes { // unknown, or too large: the reader finds that
		size = request.MaxBytes
	}
	if err := b.reserve(caller, size); err != nil {
		return nil, nil, err
	}
	done = func() { b.release(caller, size) }
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, request.MaxBytes))
	if err == nil {
		w.Header().Del("Connection") // it is read: see middleware.begin
		return body, done, nil
	}
	done()
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, nil, request.Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", request.MaxBytes)
	}
	return nil, nil, request.BadRequest("the body could not be read: send the request again")
}

// reserve returns an error if there is no room for a body.
func (b *bodies) reserve(caller string, size int64) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case b.of[caller]+size > maxBodiesOfOne:
		return request.Refuse(http.StatusTooManyRequests, "your other requests in progress have large bodies: wait for their responses")
	case b.total+size > maxBodies:
		return request.Refuse(http.StatusServiceUnavailable, "the bodies of all requests in progress are too large together: wait a second")
	}
	if b.of == nil {
		b.of = map[string]int64{}
	}
	b.total += size
	b.of[caller] += size
	return nil
}

func (b *bodies) release(caller string, size int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.total -= size
	if b.of[caller] -= size; b.of[caller] == 0 {
		delete(b.of, caller)
	}
}
