package ota

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/go-logr/logr/testr"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

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
		served <- Serve(ctx, []guard.Door{{Listener: listener, Caller: guard.Anybody}}, handler, testr.New(t))
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
