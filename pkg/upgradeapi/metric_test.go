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
	for _, line := range []string{"GET /gum/v1/made-up", "GET /gum/v1/gr/%20", "GET /gum/v1/gr/%20/rollout/", "PUT /gum/v1/openapi.yaml", "GET /gum/v1/gr/a/resource/made-up"} {
		method, path, _ := strings.Cut(line, " ")
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	want := `
# HELP gcu_api_requests_total Requests to the REST API, by operation as in its responses, by route, empty for a request that fits none, and by HTTP status.
# TYPE gcu_api_requests_total counter
gcu_api_requests_total{code="400",operation="Get",route="/gum/v1/gr/{name}/resource/{kind}"} 1
gcu_api_requests_total{code="404",operation="Get",route=""} 1
gcu_api_requests_total{code="404",operation="Get",route="/gum/v1/gr/{name}"} 1
gcu_api_requests_total{code="404",operation="Get",route="/gum/v1/gr/{name}/rollout"} 1
gcu_api_requests_total{code="405",operation="Upgrade",route=""} 1
`
	if err := testutil.CollectAndCompare(requests, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
