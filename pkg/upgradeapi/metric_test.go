package upgradeapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What callers make up, such as paths, never becomes a label.
func TestRequestsAreCounted(t *testing.T) {
	requests := NewRequestMetric(prometheus.NewPedanticRegistry())
	api := New(Options{Client: fake.NewFakeClient(), Log: logr.Discard(), Clock: clock.RealClock{}, Requests: requests})
	handler := api.Handler()
	for _, line := range []string{"GET /gum/v1/made-up", "GET /gum/v1/gr/%20", "PUT /gum/v1/openapi.yaml", "GET /gum/v1/gr/a/resource/made-up"} {
		method, path, _ := strings.Cut(line, " ")
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	want := `
# HELP gcu_api_requests_total Requests to the REST API, by operation as in its responses and by HTTP status.
# TYPE gcu_api_requests_total counter
gcu_api_requests_total{code="400",operation="Get"} 1
gcu_api_requests_total{code="404",operation="Get"} 2
gcu_api_requests_total{code="405",operation="Upgrade"} 1
`
	if err := testutil.CollectAndCompare(requests, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
