package upgradeapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// slowReader is a client that does not read its response before it is told to.
type slowReader struct {
	*httptest.ResponseRecorder
	// sent gets the size of the response, reads is closed to read it, and served when it is.
	sent          chan int
	reads, served chan struct{}
}

func (s *slowReader) Write(data []byte) (int, error) {
	s.sent <- len(data)
	<-s.reads
	return s.ResponseRecorder.Write(data)
}

// read reads the response.
func (s *slowReader) read() *httptest.ResponseRecorder {
	close(s.reads)
	<-s.served
	return s.ResponseRecorder
}

// askSlowly sends a request, and returns its client and the size of the response.
func askSlowly(handler http.Handler, caller string) (w *slowReader, size int) {
	r := httptest.NewRequest(http.MethodGet, "/gum/v1/gr/gr/plan/results/night", nil)
	r.RemoteAddr = caller + ":1"
	w = &slowReader{httptest.NewRecorder(), make(chan int, 1), make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(w.served)
		handler.ServeHTTP(w, r)
	}()
	return w, <-w.sent
}

// doneOn returns a stored plan for gr that is done on so many nodes.
func doneOn(nodes int) *topsv1.UpgradePlan {
	job := topsv1.PlannedJob{Name: "one", Stages: []topsv1.PlannedStage{{"node_precheck"}, {"node_cordon"}, {"node_drain"}, {"driver_stop"}, {"driver_replace"}, {"driver_verify"}, {"node_uncordon"}}}
	on := topsv1.PlannedNodes{Job: "one"}
	for i := range nodes {
		on.Nodes = append(on.Nodes, fmt.Sprintf("node-%05d", i))
	}
	now := metav1.Now()
	return &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "night"},
		Spec: topsv1.UpgradePlanSpec{GcuResource: "gr", Revision: "gr-1", Jobs: []topsv1.PlannedJob{job},
			Batches: []topsv1.PlannedBatch{{Name: "all", Jobs: []topsv1.PlannedNodes{on}}}},
		Status: topsv1.UpgradePlanStatus{Time: &now, Done: int32(nodes)}}
}

// Who may only read asks for large responses and does not read them: few are in memory, and others are served.
func TestResponsesThatAreNotReadFillNothing(t *testing.T) {
	_, api := answerOf(&fakeCluster{plan: doneOn(10000)}, httptest.NewRequest(http.MethodGet, "/gum/v1/gr/gr", nil), func(o *Options) { o.Rates = Rates{Reads: 1e6, Writes: 1e6} })
	handler := api.Handler()
	const large, most = 1 << 20, 32 << 20
	held := 0
	var waiting []*slowReader
	for i := range 20 {
		w, size := askSlowly(handler, "192.0.2.1")
		if size > large {
			held, waiting = held+size, append(waiting, w)
			continue
		}
		if got := w.read(); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "1" {
			t.Fatalf("request %d: %d %s", i, got.Code, got.Body)
		}
	}
	if len(waiting) == 0 || held > most {
		t.Errorf("%d bytes of %d requests wait for their reader, want at most %d", held, len(waiting), most)
	}
	if w, size := askSlowly(handler, "192.0.2.2"); size <= large {
		t.Errorf("another caller gets %s", w.read().Body)
	} else {
		waiting = append(waiting, w)
	}
	for _, w := range waiting {
		if got := w.read(); got.Code != http.StatusOK {
			t.Errorf("%d %.200s", got.Code, got.Body)
		}
	}
	if w, size := askSlowly(handler, "192.0.2.1"); size <= large {
		t.Errorf("when all is read, the next request gets %s", w.read().Body)
	} else {
		w.read()
	}
}

// The results of plans are read one request at a time, and few wait, together with plans.
func TestResultsWaitTheirTurn(t *testing.T) {
	_, api := answerOf(&fakeCluster{plan: doneOn(1)}, httptest.NewRequest(http.MethodGet, "/gum/v1/gr/gr", nil), func(o *Options) { o.Cache = o.Client })
	for range maxWaitingPlans {
		api.resolver.queue <- struct{}{}
	}
	for _, want := range []int{http.StatusTooManyRequests, http.StatusOK} {
		for _, path := range []string{"", "/night"} {
			w := httptest.NewRecorder()
			api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/gum/v1/gr/gr/plan/results"+path, nil))
			if w.Code != want {
				t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
			}
		}
		<-api.resolver.queue
	}
}
