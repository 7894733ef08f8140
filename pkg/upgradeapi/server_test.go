package upgradeapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
)

func TestModeNoneWarns(t *testing.T) {
	const warning = " ERROR upgradeapi/server.go"
	open := newTestServer(t)
	open.succeeds(http.MethodGet, "/gum/v1/gr", "") // serving, so the warning has been logged
	if text := open.logged(); !strings.Contains(text, warning) || !strings.Contains(text, "anyone who can reach the port has the rights of one user") {
		t.Errorf("got %s", text)
	}
	guarded := newTestServer(t, func(o *Options) { o.Access = NewTokenAccess(o.Client, clock.RealClock{}) })
	guarded.send(http.MethodGet, "/gum/v1/gr", "")
	if text := guarded.logged(); strings.Contains(text, warning) {
		t.Errorf("got %s", text)
	}
}

// writeCertificate writes a certificate for a name, and its key, into a folder.
func writeCertificate(t *testing.T, folder, name string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACertificateIsReadAgain(t *testing.T) {
	folder := t.TempDir()
	writeCertificate(t, folder, "first.example.com")
	d := newTestServer(t)
	d.serve(&Server{API: New(d.api.Options), TLS: true, CertDir: folder, Log: d.api.Log})
	shows := func(name string) {
		t.Helper()
		d.until(func() string {
			connection, err := tls.Dial("tcp", strings.TrimPrefix(d.url, "https://"), &tls.Config{InsecureSkipVerify: true}) // only the name is checked
			d.must(err)
			defer connection.Close()
			if leaf := connection.ConnectionState().PeerCertificates[0]; leaf.VerifyHostname(name) != nil {
				return fmt.Sprintf("the certificate is that of %v, want %s", leaf.DNSNames, name)
			}
			return ""
		})
	}
	shows("first.example.com")
	writeCertificate(t, folder, "second.example.com")
	shows("second.example.com")
}

func TestTLS(t *testing.T) {
	folder := t.TempDir()
	writeCertificate(t, folder, "gum.example.com")
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	kept := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	for dir, want := range map[string]string{"": "localhost", folder: "gum.example.com"} {
		d := newTestServer(t)
		d.serve(&Server{API: New(d.api.Options), TLS: true, CertDir: dir, Certificate: kept, Log: d.api.Log})
		// Check the name, and that it is HTTP/1.1: the limits of connections are then those
		// of requests.
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		response, err := (&http.Client{Transport: transport}).Do(d.request(t.Context(), http.MethodGet, "/gum/v1/gr", ""))
		d.must(err)
		_ = response.Body.Close()
		transport.CloseIdleConnections()
		if leaf := response.TLS.PeerCertificates[0]; response.StatusCode != http.StatusOK || response.ProtoMajor != 1 || leaf.VerifyHostname(want) != nil {
			t.Errorf("%s %s, certificate of %v, want %s", response.Proto, response.Status, leaf.DNSNames, want)
		}
	}
	server := &Server{API: New(Options{Clock: clock.RealClock{}}), Address: "127.0.0.1:0", TLS: true, CertDir: t.TempDir()}
	if err := server.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the certificate") {
		t.Errorf("a directory without a certificate: %v", err)
	}
}

// callFake serves a fakeCluster, sends a text and returns the connection.
func callFake(t *testing.T, s *fakeCluster, server *Server, log logr.Logger, text string) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.API = New(Options{Client: s, Namespace: namespace, Clock: clock.RealClock{}, Log: log})
	server.Listener, server.Log = listener, log
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, text); err != nil {
		t.Fatal(err)
	}
	return connection
}

// A caller that sends half a header or half a body is disconnected, and nothing is changed.
func TestASlowCallerIsNotWaitedFor(t *testing.T) {
	for text, want := range map[string]string{
		"DELETE /gum/v1/gr/gr HTTP/1.1\r\nHost: a\r\nX-Slow: ":                     "",
		"DELETE /gum/v1/gr/gr HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{": "the body could not be read",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel() // the header timeout is seconds
			s := &fakeCluster{}
			connection := callFake(t, s, &Server{ReadTimeout: 50 * time.Millisecond}, logr.Discard(), text)
			if got, err := io.ReadAll(connection); err != nil || !strings.Contains(string(got), want) || len(s.asked) > 0 {
				t.Errorf("answered with %q (%v), after %q", got, err, s.asked)
			}
		})
	}
}

// A caller that does not read the response is disconnected.
func TestASlowReaderIsNotWaitedFor(t *testing.T) {
	left := make(chan struct{})
	once := sync.OnceFunc(func() { close(left) })
	log := funcr.New(func(_, text string) {
		if strings.Contains(text, "The client disconnected") {
			once()
		}
	}, funcr.Options{Verbosity: 4})
	s := &fakeCluster{annotations: map[string]string{"large": strings.Repeat("x", 8<<20)}}
	connection := callFake(t, s, &Server{WriteTimeout: 500 * time.Millisecond}, log, "GET /gum/v1/gr/gr HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatal("it is waited for")
	}
	if got, err := io.ReadAll(connection); len(got) >= 8<<20 {
		t.Errorf("all %d bytes have come (%v)", len(got), err)
	}
}

// Somebody holds all connections with half requests: others are answered, and who is being answered is
// not cut off. Without bound on the time of a request, only eviction makes room.
func TestConnectionsWithoutAnAuthorizedRequestMakeRoom(t *testing.T) {
	d := newTestServer(t)
	const limit = 4
	d.serve(&Server{API: New(d.api.Options), connections: limit, grace: 20 * time.Millisecond, ReadTimeout: time.Hour, Log: d.api.Log})
	d.create("served")
	later := d.sendLater(t.Context(), http.MethodDelete, "/gum/v1/gr/served", `{"policy": "foreground"}`)
	d.goes("served") // its answer waits, which takes one connection
	for range 2 * limit {
		held, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		d.must(err)
		t.Cleanup(func() { _ = held.Close() })
		_, err = io.WriteString(held, "POST /gum/v1/gr/served/plan HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
		d.must(err)
	}
	if got := d.after(d.sendLater(t.Context(), http.MethodGet, "/gum/v1/gr", "")); got.status != http.StatusOK {
		t.Errorf("got %d %s", got.status, got.body)
	}
	d.letGo("served")
	if got := d.after(later); got.body != plainSuccess(OperationDelete) {
		t.Errorf("got %s", got.body)
	}
}
