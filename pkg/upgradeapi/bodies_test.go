package upgradeapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

func TestACallerWhoseBodyHasNoRoomIsRefused(t *testing.T) {
	for _, test := range []struct {
		caller string
		size   int
		want   int
	}{{"first", 1, http.StatusTooManyRequests}, {"another", 1, http.StatusServiceUnavailable}, {"another", request.MaxBytes + 1, http.StatusRequestEntityTooLarge}} {
		bodies := newBodies()
		read := func(caller string, size int) error {
			r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader(strings.Repeat("x", size)))
			_, _, err := readBody(bodies, httptest.NewRecorder(), r, caller)
			return err
		}
		for i := range bodies.OfOne / request.MaxBytes {
			if err := read("first", request.MaxBytes); err != nil {
				t.Fatalf("body %d: %v", i, err)
			}
		}
		if test.want == http.StatusServiceUnavailable {
			bodies.All = bodies.OfOne
		}
		err := read(test.caller, test.size)
		if got, _ := failure(err); err == nil || got != test.want {
			t.Errorf("%s, %d bytes: %v", test.caller, test.size, err)
		}
	}
}
