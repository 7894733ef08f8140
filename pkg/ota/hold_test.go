package ota

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// shownHold returns status.agent.hold, nil for none.
func (c *fakeCluster) shownHold() *topsv1.NodeHold {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodeUpgrade == nil || c.nodeUpgrade.Status.Agent == nil {
		return nil
	}
	return c.nodeUpgrade.Status.Agent.Hold
}

func TestAHoldIsShownUntilItIsReleased(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	first := decoded[response.Hold](call(t, h, "POST", "/v1/hold", `{"message":"a surgery"}`).wants(200))
	if !first.Held || first.Offline != "" || b.cluster.shownHold() == nil || b.cluster.shownHold().Message != "a surgery" {
		t.Fatalf("held: %+v, submitted %+v", first, b.cluster.shownHold())
	}
	if got := reasonOf(t, b.UpgradePod(t.Context(), "kube-system", "enflame-driver-x")); got != request.ReasonNodeHeld {
		t.Errorf("a request of a held node is refused with %q", got)
	}
	b.clock.Step(3600e9)
	again := decoded[response.Hold](call(t, h, "POST", "/v1/hold", "").wants(200))
	if !again.Hold.Since.Equal(&first.Hold.Since) || again.Hold.Message != "a surgery" {
		t.Errorf("held once more: %+v", again)
	}
	if s := decoded[response.Status](call(t, h, "GET", "/v1/status", "")); s.Hold == nil {
		t.Error("the status does not show it")
	}
	call(t, h, "POST", "/v1/release", "").wants(200)
	if b.cluster.shownHold() != nil {
		t.Error("it is submitted after the release")
	}
	b.mustUpgrade(t, "enflame-driver-x")
}

func TestTheHoldOfAnAdministratorIsShownToo(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	call(t, h, "POST", "/v1/hold", "").wants(200)
	since := time.Unix(1700000000, 0)
	for value, want := range map[string]*topsv1.NodeHold{
		daemonset.HoldValue(since, "audit"): {Since: metav1.NewTime(since), Message: "audit"},
		"by hand":                           {Message: "by hand"},
	} {
		b.cluster.mu.Lock()
		b.cluster.nodeUpgrade.Annotations = map[string]string{topsv1.AnnotationHold: value}
		b.cluster.mu.Unlock()
		released := decoded[response.Hold](call(t, h, "POST", "/v1/release", "").wants(200))
		if released.Held || released.AdministratorHold == nil || released.AdministratorHold.Message != want.Message {
			t.Errorf("%q: released: %+v", value, released)
		}
		s := decoded[response.Status](call(t, h, "GET", "/v1/status", "").wants(200))
		if s.Hold != nil || s.AdministratorHold == nil || !s.AdministratorHold.Since.Equal(&want.Since) || s.AdministratorHold.Message != want.Message {
			t.Errorf("%q: the status shows %+v and %+v", value, s.Hold, s.AdministratorHold)
		}
	}
}

func TestAHoldSurvivesWhatAnAgentMayLose(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	call(t, b.handler(), "POST", "/v1/hold", "").wants(200)

	c.set(func() { c.nodeUpgrade = nil })
	restarted := newBench(t, c, b.directory)
	if err := restarted.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.shownHold() == nil {
		t.Error("without its NodeUpgrade, and restarted, the node is not held")
	}

	for name, lose := range map[string]func(file string) error{
		"its journal":        os.Remove,
		"its file to a tear": func(file string) error { return os.WriteFile(file, []byte("{"), 0o600) },
	} {
		if err := lose(filepath.Join(b.directory, "hold", "hold.json")); err != nil {
			t.Fatal(err)
		}
		reinstalled := newBench(t, c, b.directory)
		if err := reinstalled.syncOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.shownHold() == nil || reinstalled.loop.journals.Hold.Hold == nil {
			t.Errorf("the agent lost %s, and the node is not held", name)
		}
	}
}

func TestAHoldWithoutAConnectionIsShownLater(t *testing.T) {
	b := seenBench(t, newFleet())
	id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation().ID
	if s := decoded[response.Hold](call(t, b.handler(), "POST", "/v1/hold", "").wants(200)); !s.Held || s.Offline != response.OfflineQueued {
		t.Errorf("held: %+v", s)
	}
	if o := call(t, b.handler(), "GET", "/v1/operations/"+id, "").operation(); o.State != request.Dropped || !strings.Contains(o.Message, "held before") {
		t.Errorf("what was queued is %+v", o)
	}
	b.reconnect(t)
	if b.cluster.shownHold() == nil || len(b.cluster.requested()) != 0 {
		t.Errorf("submitted: hold %+v, requests %v", b.cluster.shownHold(), b.cluster.requested())
	}
}

func TestAReleaseIsNotForgottenWithTheConnection(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	call(t, b.handler(), "POST", "/v1/hold", "").wants(200)
	c.set(func() { c.unreachable = errUnreachable })
	call(t, b.handler(), "POST", "/v1/release", "").wants(200)
	newBench(t, c, b.directory).reconnect(t)
	if c.shownHold() != nil {
		t.Error("the hold came back from the NodeUpgrade")
	}
}
