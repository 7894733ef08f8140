package endpoint

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// until polls, because the code under test runs in goroutines on a fake clock.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func TestServeLetsRequestsFinish(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		if r.Context().Err() != nil {
			t.Error("the request was cut off")
		}
		_, _ = io.WriteString(w, "finished")
	})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, []guard.Listener{{Listener: listener, Caller: guard.AllowAll}}, handler, testr.New(t))
	}()
	answers := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + listener.Addr().String())
		if err != nil {
			answers <- err.Error()
			return
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		answers <- string(body)
	}()

	<-entered
	cancel()
	until(t, "no new connection is taken", func() bool {
		connection, err := net.Dial("tcp", listener.Addr().String())
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	})
	close(release)
	if answer := <-answers; answer != "finished" {
		t.Errorf("answer is %q", answer)
	}
	if err := <-served; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

func TestALargeBodyIsNotRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	backend := &fakeBackend{}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	const token = "0123456789abcdef0123456789abcdef"
	go func() {
		served <- Serve(ctx, []guard.Listener{{Listener: listener, Caller: guard.Bearer(token)}}, handlerOf(backend), testr.New(t))
	}()
	for authorization, want := range map[string]int{"": 401, "Bearer " + token: 413} {
		body := &counted{left: 10 << 20}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+"/v1/upgrade", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", authorization)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want || len(backend.asked) > 0 {
			t.Errorf("10 MB with %q are answered with %s, asked %v", authorization, response.Status, backend.asked)
		}
		if body.read() > 5<<20 {
			t.Errorf("%d bytes of the body were taken", body.read())
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

// counted is a body of a given number of bytes.
type counted struct {
	mu         sync.Mutex
	left, sent int
}

func (c *counted) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(p), c.left)
	c.left -= n
	c.sent += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *counted) read() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}
