package upgradeapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/connections"
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

// What has been changed is answered whatever room there is: a refusal would say that it was not changed.
func TestAResponseWithoutRoomIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		caller  string
		content any
		want    int
	}{
		"of the caller":        {"first", map[string]any{"a": "b"}, http.StatusTooManyRequests},
		"a file of the caller": {"first", yamlFile("a: b"), http.StatusTooManyRequests},
		"of all":               {"another", map[string]any{"a": "b"}, http.StatusServiceUnavailable},
		"a change":             {"first", nil, http.StatusOK},
	} {
		m := &middleware{responses: &connections.Bodies{OfOne: 10, All: 10}, clock: clock.RealClock{}, log: logr.Discard()}
		done, err := m.responses.Reserve("user first", 20) // one that is alone always has room
		if err != nil {
			t.Fatal(err)
		}
		release := sync.OnceFunc(done)
		for _, want := range []int{test.want, http.StatusOK} {
			w := httptest.NewRecorder()
			m.respond(w, &entry{operation: OperationGet, user: test.caller, known: true}, test.content, nil)
			if w.Code != want || want != http.StatusOK && w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, want)
			}
			release()
		}
	}
}
