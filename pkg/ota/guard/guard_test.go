package guard

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/topsops/gcu-operator/pkg/foreign"
)

const testToken = "0123456789abcdef0123456789abcdef"

func TestAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:10267": "127.0.0.1:10267",
		"127.0.0.53:0":    "127.0.0.53:0",
		"[::1]:10267":     "[::1]:10267",
		"localhost:80":    "127.0.0.1:80",
		"":                "is not ip:port",
		"127.0.0.1":       "is not ip:port",
		"127.0.0.1:http":  "has no port",
		"127.0.0.1:65536": "has no port",
		"127.0.0.1:-1":    "has no port",
		":10267":          "is not a loopback address",
		"0.0.0.0:10267":   "is not a loopback address",
		"[::]:10267":      "is not a loopback address",
		"10.0.0.1:10267":  "is not a loopback address",
		"127.1:80":        "is not a loopback address",
		"example.com:80":  "is not a loopback address",
	} {
		got, err := Address(address, false)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %q, want %q", address, err, want)
			}
		} else if got.String() != want {
			t.Errorf("%q is taken as %s, want %q", address, got, want)
		}
	}
	if got, err := Address("0.0.0.0:10267", true); err != nil || got.String() != "0.0.0.0:10267" {
		t.Errorf("a secured endpoint at all addresses: %s, %v", got, err)
	}
}

// serve serves a listener on loopback and returns its address.
func serve(t *testing.T, l Listener, handler http.HandlerFunc) string {
	t.Helper()
	return serveBy(t, clock.RealClock{}, l, handler)
}

func serveBy(t *testing.T, c clock.Clock, l Listener, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Listener = listener
	serveListener(t, c, l, handler)
	return listener.Addr().String()
}

func serveListener(t *testing.T, c clock.Clock, l Listener, handler http.HandlerFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, Options{Listeners: []Listener{l}, Handler: handler, DrainTimeout: 5 * time.Second, Clock: c, Log: logr.Discard(),
			Deny: func(w http.ResponseWriter, _ *http.Request, d *Denial) { http.Error(w, d.Message, d.Status) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// get sends one request and returns the status and the body.
func get(t *testing.T, address, method, path string, change func(*http.Request)) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(request)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

func TestWhichRequestsAreAdmitted(t *testing.T) {
	address := serve(t, Listener{Caller: Bearer(testToken), Hosts: foreign.Hosts(netip.MustParseAddr("127.0.0.1"))}, hello)
	token := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testToken) }
	header := func(key, value string) func(*http.Request) {
		return func(r *http.Request) { token(r); r.Header.Set(key, value) }
	}
	for name, test := range map[string]struct {
		method, path string
		change       func(*http.Request)
		status       int
	}{
		"who shows the token":                              {"POST", "/x", token, 200},
		"who writes the scheme in lower case":              {"GET", "/x", header("Authorization", "bearer "+testToken), 200},
		"not who shows nothing":                            {"GET", "/x", nil, 401},
		"not who shows another token":                      {"GET", "/x", header("Authorization", "Bearer x"+testToken), 401},
		"not who shows the beginning of the token":         {"GET", "/x", header("Authorization", "Bearer "+testToken[:16]), 401},
		"not who shows it as a password":                   {"GET", "/x", header("Authorization", "Basic "+testToken), 401},
		"the probe of the kubelet":                         {"GET", "/healthz", nil, 200},
		"nobody who posts to the probe":                    {"POST", "/healthz", nil, 401},
		"not by a name that was pointed here":              {"GET", "/x", func(r *http.Request) { token(r); r.Host = "evil.example:10267" }, 421},
		"not the probe by such a name":                     {"GET", "/healthz", func(r *http.Request) { r.Host = "evil.example" }, 421},
		"not a browser that posts from another page":       {"POST", "/x", header("Sec-Fetch-Site", "cross-site"), 403},
		"not a browser from another port of this host":     {"POST", "/x", header("Sec-Fetch-Site", "same-site"), 403},
		"not an older browser that posts from a page":      {"POST", "/x", header("Origin", "http://evil.example"), 403},
		"not an older browser that hides where it is from": {"POST", "/x", header("Origin", "null"), 403},
	} {
		t.Run(name, func(t *testing.T) {
			if status, says := get(t, address, test.method, test.path, test.change); status != test.status {
				t.Errorf("answered with %d %q, want %d", status, says, test.status)
			}
		})
	}
}

func TestNoAnswerIsForAnotherOrigin(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/pods", nil)
	r.Header.Set("Origin", "http://evil.example")
	Options{Handler: http.HandlerFunc(hello), Log: logr.Discard()}.check(Listener{Caller: AllowAll}).ServeHTTP(w, r)
	for key := range w.Header() {
		if strings.HasPrefix(key, "Access-Control-") {
			t.Errorf("the answer has %s", key)
		}
	}
}

func TestAThousandSlowConnectionsDoNotBlockOthers(t *testing.T) {
	address := serve(t, Listener{Caller: Bearer(testToken)}, hello)
	var slow []net.Conn
	for range 1000 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	token := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testToken) }
	if status, says := get(t, address, "GET", "/", token); status != http.StatusOK {
		t.Errorf("who may call is answered with %d %q", status, says)
	}
	// All but the last few were evicted.
	for i, c := range slow[:1000-MaxConnections] {
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
}

func TestConnectionsThatAreServedAreLeftAlone(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var blocking atomic.Bool
	blocking.Store(true)
	times := clocktesting.NewFakeClock(time.Unix(0, 0))
	address := serveBy(t, times, Listener{Caller: Bearer(testToken)}, func(w http.ResponseWriter, r *http.Request) {
		if blocking.Load() {
			entered <- struct{}{}
			<-release
		}
		hello(w, r)
	})
	token := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testToken) }
	answers := make(chan int, MaxConnections)
	for range MaxConnections {
		go func() {
			status, _ := get(t, address, "GET", "/", token)
			answers <- status
		}()
		<-entered
	}
	go func() {
		status, _ := get(t, address, "GET", "/", token) // waits for room
		answers <- status
	}()
	for range 3 { // retried after everyone's grace
		untilSomebodyWaits(t, times)
		times.Step(grace)
	}
	untilSomebodyWaits(t, times)
	select {
	case <-entered:
		t.Errorf("more than %d are served at once", MaxConnections)
	case status := <-answers:
		t.Errorf("one more than %d is answered with %d before there is room", MaxConnections, status)
	default:
	}
	blocking.Store(false)
	close(release)
	for range MaxConnections + 1 {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("who was served, or waited, is answered with %d", status)
		}
	}
}

// untilSomebodyWaits returns once a connection waits for room.
func untilSomebodyWaits(t *testing.T, times *clocktesting.FakeClock) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return times.HasWaiters(), nil })
	if err != nil {
		t.Fatalf("nobody waits for room: %v", err)
	}
}

func TestALongHeaderIsRefused(t *testing.T) {
	address := serve(t, Listener{Caller: AllowAll}, hello)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	go func() {
		_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", 1<<20))
	}()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.Contains(line, "431") {
		t.Errorf("answered with %q, want 431", line)
	}
}

func TestTLS(t *testing.T) {
	// The certificate of httptest is for example.com and 127.0.0.1.
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	address := serve(t, Listener{Caller: Bearer(testToken), TLS: &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}}, hello)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	response, err := certified.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 1 {
		t.Errorf("over TLS: %s %s", response.Status, response.Proto)
	}
	certified.Client().CloseIdleConnections()
	if status, _ := get(t, address, "GET", "/", nil); status == http.StatusOK {
		t.Error("without TLS it is answered too")
	}
}
