package main

import (
	"net"
	"net/http"
	"testing"

	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestProfilesAreServedOnRequest(t *testing.T) {
	kubeconfig := apiserver.Start(t).KubeconfigFile(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	startManager(t, "--kubeconfig", kubeconfig, "--metrics-bind-address=0", "--health-probe-bind-address=0", "--upgrade-api-bind-address=0", "--log-dir=", "--pprof-bind-address", address)
	eventually(t, func() string {
		response, err := http.Get("http://" + address + "/debug/pprof/heap")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
}
