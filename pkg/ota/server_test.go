package ota

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
)

func TestLoopbackAddress(t *testing.T) {
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
		got, err := LoopbackAddress(address)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %q, want %q", address, err, want)
			}
		} else if got.String() != want {
			t.Errorf("%q is taken as %s, want %q", address, got, want)
		}
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
	go func() { served <- Serve(ctx, listener, handler, testr.New(t)) }()
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
