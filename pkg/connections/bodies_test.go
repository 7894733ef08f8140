package connections

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// put returns a request with a body of a length.
func put(length int) *http.Request {
	return httptest.NewRequest(http.MethodPut, "/", strings.NewReader(strings.Repeat("x", length)))
}

func TestBodiesAreBoundedOfOneAndOfAll(t *testing.T) {
	b := &Bodies{Largest: 10, OfOne: 20, All: 60}
	read := func(caller string) (func(), error) {
		_, done, err := b.Read(httptest.NewRecorder(), put(10), caller)
		return done, err
	}
	var all []func()
	for i := range b.All / b.OfOne {
		for range b.OfOne / b.Largest {
			done, err := read(fmt.Sprint("caller-", i))
			if err != nil {
				t.Fatalf("caller %d: %v", i, err)
			}
			all = append(all, done)
		}
	}
	if _, err := read("caller-0"); !errors.Is(err, ErrCallerFull) {
		t.Errorf("one more of the first: %v", err)
	}
	if _, err := read("another"); !errors.Is(err, ErrFull) {
		t.Errorf("one of another: %v", err)
	}
	for _, done := range all {
		done()
	}
	for range b.All/b.Largest + 1 {
		done, err := read("another")
		if err != nil {
			t.Fatalf("room is not given back: %v", err)
		}
		done()
	}
	for _, length := range []int64{11, -1} { // too large, or of a length that is not said
		r := put(11)
		r.ContentLength = length
		if _, _, err := b.Read(httptest.NewRecorder(), r, "another"); !errors.Is(err, ErrTooLarge) {
			t.Errorf("length %d: %v", length, err)
		}
	}
	if b.total != 0 || len(b.of) != 0 {
		t.Errorf("%d bytes of %v are left", b.total, b.of)
	}
}

func TestAGetHasNoBody(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r := httptest.NewRequest(method, "/", strings.NewReader("{}"))
		if body, _, err := (&Bodies{}).Read(httptest.NewRecorder(), r, "caller"); len(body) != 0 || err != nil {
			t.Errorf("%s: %q, %v", method, body, err)
		}
	}
}
