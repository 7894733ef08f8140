package main

import (
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
)

// TestTheTokenIsAskedForOverTCP: with --ota-auth=token, the default, and only then.
func TestTheTokenIsAskedForOverTCP(t *testing.T) {
	file := filepath.Join(t.TempDir(), tokenFileName)
	for _, mode := range []string{authToken, authNone} {
		listeners, _, err := openListeners(settings{options: options{nodeName: "n", auth: mode, tokenFile: file}, address: netip.MustParseAddrPort("127.0.0.1:0")}, testr.New(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := listeners[0].Listener.Close(); err != nil {
			t.Error(err)
		}
		request := httptest.NewRequest("POST", "/v1/upgrade", nil)
		if denial := listeners[0].Caller(request); (denial != nil) != (mode == authToken) {
			t.Errorf("--ota-auth=%s, without a token: %+v", mode, denial)
		}
		token, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		if denial := listeners[0].Caller(request); denial != nil {
			t.Errorf("--ota-auth=%s, with the token: %+v", mode, denial)
		}
	}
}
