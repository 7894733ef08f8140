package guard

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/topsops/gcu-operator/pkg/ota/proof"
)

// TestAPortThatIsTakenIsServedOnceItIsFree also closes a listener that still waits.
func TestAPortThatIsTakenIsServedOnceItIsFree(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, fake := other.Addr().String(), clocktesting.NewFakeClock(time.Unix(0, 0))
	port, err := ListenTCP(address, fake, logr.Discard())
	if err != nil {
		t.Fatalf("an address that is in use: %v", err)
	}
	if port.InUse() != address || port.Addr().String() != address {
		t.Errorf("in use is %q, the address %s, want %s", port.InUse(), port.Addr(), address)
	}
	serveListener(t, clock.RealClock{}, Listener{Listener: port, Caller: AllowAll}, hello)
	until(t, "the listener waits", fake.HasWaiters)
	fake.Step(portRetry)
	until(t, "it waits again, as the address is still in use", fake.HasWaiters)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	fake.Step(portRetry)
	until(t, "the free address is used", func() bool { return port.InUse() == "" })
	if status, _ := get(t, address, http.MethodGet, "/", nil); status != http.StatusOK {
		t.Errorf("status %d", status)
	}

	waiting, err := ListenTCP(address, fake, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := waiting.Accept()
		ended <- err
	}()
	if err := waiting.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a closed listener accepts")
	}
}

// TestAnAddressThatTheNodeDoesNotHaveIsWaitedFor: the network of the node may come up later. An address that can never be listened on is an
// error.
func TestAnAddressThatTheNodeDoesNotHaveIsWaitedFor(t *testing.T) {
	const address = "192.0.2.1:10267" // of no network
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	port, err := ListenTCP(address, fake, testr.New(t))
	if err != nil {
		t.Fatal(err)
	}
	if port.InUse() != "" || port.Addr().String() != address {
		t.Errorf("in use is %q, the address %s", port.InUse(), port.Addr())
	}
	serveListener(t, clock.RealClock{}, Listener{Listener: port, Caller: AllowAll}, hello)
	until(t, "the listener waits", fake.HasWaiters)
	fake.Step(portRetry)
	until(t, "it waits again", fake.HasWaiters)
	port.mu.Lock()
	port.address = "127.0.0.1:0" // the node gets the address
	port.mu.Unlock()
	fake.Step(portRetry)
	until(t, "it serves", func() bool { return port.Addr().String() != "127.0.0.1:0" && port.Addr().String() != address })
	if status, _ := get(t, port.Addr().String(), http.MethodGet, "/", nil); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if _, err := ListenTCP("127.0.0.1:http:80", fake, testr.New(t)); err == nil {
		t.Error("an address that is none is waited for")
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// TestAProofIsForTheAddressThatWasCalled: a process on another address cannot pass a challenge
// on, and without authentication there is nothing to prove.
func TestAProofIsForTheAddressThatWasCalled(t *testing.T) {
	prove := func(l Listener, challenge string) (shown, address string) {
		address = serve(t, l, hello)
		request, err := http.NewRequest(http.MethodGet, "http://"+address+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(proof.ChallengeHeader, challenge)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		return response.Header.Get(proof.Header), address
	}
	listener := Listener{Caller: Bearer(testToken), Prove: proof.Prover(testToken)}
	shown, address := prove(listener, "c")
	if shown != proof.Of(testToken, "c", address) || shown == proof.Of(testToken, "c", "127.0.0.1:1") || shown == proof.Of(testToken, "d", address) || shown == proof.Of("other", "c", address) {
		t.Errorf("proof %q", shown)
	}
	if shown, _ := prove(listener, ""); shown != "" {
		t.Errorf("proof %q without a challenge", shown)
	}
	if shown, _ := prove(Listener{Caller: AllowAll}, "c"); shown != "" {
		t.Errorf("proof %q without a token", shown)
	}
}
