package admission

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/topsops/gcu-operator/pkg/connections"
)

// expensive returns a review about a gr with a UID whose object has a length, and takes as much memory as can be.
func expensive(uid string, length int) string {
	const empty = `{"request":{"uid":"request","name":"gr","oldObject":{"metadata":{"uid":%q},"spec":{}},"object":{"metadata":{"name":"gr"},"spec":{"driver":{"env":[%s{}]}}}}}`
	return fmt.Sprintf(empty, uid, strings.Repeat("{},", length/3-100))
}

// Whoever reaches the port has the manager use no more memory than it has, its limit being 512Mi, and is answered at once.
func TestReviewsOfStrangersAreBounded(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is in use counts, not what is not collected yet
	for _, test := range []struct {
		uid    string
		length int
	}{{"guessed", maxReview}, {"uid", maxReview}, {"uid", maxObject}} {
		v := versionsFor(t, &foretold{}, interceptor.Funcs{})
		server := httptest.NewServer(v.Handler())
		body := expensive(test.uid, test.length)
		stop, peak := make(chan struct{}), make(chan uint64)
		runtime.GC()
		go func() {
			var most uint64
			for {
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapInuse)
				select {
				case <-stop:
					peak <- most
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				request := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
				request.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i)
				server.Config.Handler.ServeHTTP(httptest.NewRecorder(), request)
			})
		}
		all.Wait()
		close(stop)
		server.Close()
		got := <-peak
		t.Logf("UID %s, length %d: %d MiB", test.uid, test.length, got>>20)
		if got > 128<<20 {
			t.Errorf("UID %s, length %d: %d MiB are used", test.uid, test.length, got>>20)
		}
	}
}

// A GET is not answered, and its connection is closed.
func TestOnlyAPostIsAnswered(t *testing.T) {
	recorder := httptest.NewRecorder()
	versionsFor(t, &foretold{}, interceptor.Funcs{}).Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, Path, nil))
	if recorder.Code != http.StatusMethodNotAllowed || recorder.Header().Get("Connection") != "close" {
		t.Errorf("answered %d, %v", recorder.Code, recorder.Header())
	}
}

// What is too large, or has no room, is not answered: the API server allows it (failurePolicy Ignore).
func TestWhatIsNotRead(t *testing.T) {
	p := versionsFor(t, &foretold{}, interceptor.Funcs{}).Handler().(*port)
	if got := post(t, p, expensive("uid", maxReview)+strings.Repeat(" ", maxReview)); got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", got.Code)
	}
	p.bodies.All = 1
	if got := post(t, p, expensive("uid", maxReview)); got.Code != http.StatusServiceUnavailable {
		t.Errorf("without room: %d", got.Code)
	}
	if got := statusOf(connections.ErrUnread); got != http.StatusRequestTimeout {
		t.Errorf("unread: %d", got)
	}
}

// Who sends half of a review does not keep its room.
func TestAReviewArrivesInTime(t *testing.T) {
	p := versionsFor(t, &foretold{}, interceptor.Funcs{}).Handler().(*port)
	p.receive = 50 * time.Millisecond
	server := httptest.NewServer(p)
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	check(t, err)
	defer func() { check(t, c.Close()) }()
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{", Path)
	check(t, err)
	check(t, c.SetDeadline(time.Now().Add(time.Minute)))
	answer, err := io.ReadAll(c) // it is closed, too
	if check(t, err); !strings.HasPrefix(string(answer), "HTTP/1.1 408") {
		t.Errorf("answered %s", answer)
	}
}
