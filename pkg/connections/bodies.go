package connections

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
)

// Errors of Bodies.
var (
	// ErrTooLarge: the body is larger than Largest.
	ErrTooLarge = errors.New("the body is too large")
	// ErrCallerFull: there is no room for the body among those of the caller.
	ErrCallerFull = errors.New("the bodies of the caller that are in progress are too large together")
	// ErrFull: there is no room for it among all.
	ErrFull = errors.New("all bodies in progress are too large together")
	// ErrUnread: it did not arrive, or not in time.
	ErrUnread = errors.New("the body could not be read")
)

// Bodies bounds the bytes of bodies in memory, those of requests or those of responses: of one, of those in progress of a caller, and of all.
// It is safe for concurrent use.
type Bodies struct {
	// Largest bounds one body that is read, OfOne those of one caller, and All those of all callers. Where Largest is 0, one that is alone
	// always has room.
	Largest, OfOne, All int64

	mutex sync.Mutex
	total int64
	of    map[string]int64
}

// Read reads the whole body of a caller's request, and nothing where a method has none. done
// must be called when the body is not needed any longer, if there is no error, which is one of those above.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, caller string) (body []byte, done func(), err error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.ContentLength == 0 {
		return nil, func() {}, nil
	}
	size := r.ContentLength
	if size < 0 || size > b.Largest { // unknown, or too large: the reader finds that
		size = b.Largest
	}
	if done, err = b.Reserve(caller, size); err != nil {
		return nil, nil, err
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, b.Largest))
	if err == nil {
		return body, done, nil
	}
	done()
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, nil, ErrTooLarge
	}
	return nil, nil, ErrUnread
}

// Reserve makes room for a body of a caller, or returns ErrCallerFull or ErrFull. Without an error, done must be called when the body is not
// needed any longer.
func (b *Bodies) Reserve(caller string, size int64) (done func(), err error) {
	if err := b.reserve(caller, size); err != nil {
		return nil, err
	}
	return func() { b.release(caller, size) }, nil
}

// reserve returns an error if there is no room for a body.
func (b *Bodies) reserve(caller string, size int64) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	isAlone := func(others int64) bool { return b.Largest == 0 && others == 0 }
	switch {
	case b.of[caller]+size > b.OfOne && !isAlone(b.of[caller]):
		return ErrCallerFull
	case b.total+size > b.All && !isAlone(b.total):
		return ErrFull
	}
	if b.of == nil {
		b.of = map[string]int64{}
	}
	b.total += size
	b.of[caller] += size
	return nil
}

func (b *Bodies) release(caller string, size int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.total -= size
	if b.of[caller] -= size; b.of[caller] == 0 {
		delete(b.of, caller)
	}
}

// AddressOf returns the address of a caller, without the port.
func AddressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
