package apiserver

import (
	"net"
	"os"
	"testing"
	"time"
)

// Interrupt stops the API server, and returns what starts it again at its address, with its data, its certificates and its
// users. Connections to it break. The server must be the test's own, from Start.
func (s *Server) Interrupt(t *testing.T) (resume func()) {
	t.Helper()
	api, kept := s.ControlPlane.GetAPIServer(), t.TempDir()
	if err := os.CopyFS(kept, os.DirFS(api.CertDir)); err != nil { // the folder goes with the process
		t.Fatalf("keeping the certificates of the API server: %v", err)
	}
	if err := api.Stop(); err != nil {
		t.Logf("the API server was killed: %v", err) // it waits for those that watch
	}
	address := api.HostPort()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		_ = connection.Close() // it was only to see whether somebody listens
		if time.Now().After(deadline) {
			t.Fatalf("after the API server was stopped %s still answers", address)
		}
	}
	api.CertDir = kept
	return func() {
		t.Helper()
		if err := api.Start(); err != nil {
			t.Fatalf("starting the API server again: %v", err)
		}
	}
}
