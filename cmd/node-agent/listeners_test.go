package main

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/testr"

	"github.com/topsops/gcu-operator/pkg/ota/proof"
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

// TestNobodyIsAdmittedWithoutAToken: while none can be made, the disk being read-only; the agent makes one when it can.
func TestNobodyIsAdmittedWithoutAToken(t *testing.T) {
	state, remount := emptyDisk(t)
	remount(syscall.MS_RDONLY)
	file := filepath.Join(state, "ota", tokenFileName)
	listener, err := openTCP(settings{options: options{nodeName: "n", auth: authToken, tokenFile: file}, address: netip.MustParseAddrPort("127.0.0.1:0")}, testr.New(t))
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest("POST", "/v1/upgrade", nil)
	for _, presented := range []string{"", "Bearer ", "Bearer x"} {
		request.Header.Set("Authorization", presented)
		if denial := listener.Caller(request); denial == nil || denial.Status != http.StatusUnauthorized || !strings.Contains(denial.Message, "socket") {
			t.Errorf("%q: %+v", presented, denial)
		}
	}
	if shown := listener.Prove("challenge", "address"); shown != "" {
		t.Errorf("an agent without a token shows %q", shown)
	}
	remount(0)
	if denial := listener.Caller(request); denial == nil {
		t.Error("a wrong token is admitted")
	}
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if denial := listener.Caller(request); denial != nil {
		t.Errorf("with the token: %+v", denial)
	}
	if shown := listener.Prove("challenge", "address"); shown != proof.Of(strings.TrimSpace(string(token)), "challenge", "address") {
		t.Errorf("the agent shows %q", shown)
	}
}
