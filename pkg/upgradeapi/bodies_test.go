package upgradeapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

func TestBodiesAreBoundedOfOneAndOfAll(t *testing.T) {
	b := &bodies{}
	read := func(caller string) (func(), error) {
		r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader(strings.Repeat("x", request.MaxBytes)))
		_, done, err := b.read(httptest.NewRecorder(), r, caller)
		return done, err
	}
	refused := func(err error, status int) bool {
		got, _ := failure(err)
		return err != nil && got == status
	}
	var all []func()
	for i := range maxBodies / maxBodiesOfOne {
		for range maxBodiesOfOne / request.MaxBytes {
			done, err := read(fmt.Sprint("caller-", i))
			if err != nil {
				t.Fatalf("caller %d: %v", i, err)
			}
			all = append(all, done)
		}
	}
	if _, err := read("caller-0"); !refused(err, http.StatusTooManyRequests) {
		t.Errorf("one more of the first: %v", err)
	}
	if _, err := read("another"); !refused(err, http.StatusServiceUnavailable) {
		t.Errorf("one of another: %v", err)
	}
	for _, done := range all {
		done()
	}
	for range maxBodies/request.MaxBytes + 1 {
		done, err := read("another")
		if err != nil {
			t.Fatalf("room is not given back: %v", err)
		}
		done()
	}
	if b.total != 0 || len(b.of) != 0 {
		t.Errorf("%d bytes of %v are left", b.total, b.of)
	}
}

func TestAGetHasNoBody(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r := httptest.NewRequest(method, "/", strings.NewReader("{}"))
		if body, _, err := (&bodies{}).read(httptest.NewRecorder(), r, "caller"); len(body) != 0 || err != nil {
			t.Errorf("%s: %q, %v", method, body, err)
		}
	}
}
