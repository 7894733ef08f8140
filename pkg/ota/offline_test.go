package ota

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// seenBench has read the fleet, and then lost the API server.
func seenBench(t *testing.T, c *fakeCluster) *bench {
	t.Helper()
	b := newBench(t, c, t.TempDir())
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.set(func() { c.unreachable = errUnreachable })
	return b
}

// reconnect makes the API server available to the agent again.
func (b *bench) reconnect(t *testing.T) {
	t.Helper()
	b.cluster.set(func() { b.cluster.unreachable = nil })
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatalf("first pass after the connection is back: %v", err)
	}
}

func TestAnOrderWithoutAConnectionIsCarriedOutLater(t *testing.T) {
	b := seenBench(t, newFleet())
	h := b.handler()
	o := call(t, h, "POST", "/v1/upgrade", "").wants(202).operation()
	if o.State != request.Queued || o.Offline != response.OfflineQueued || len(o.Requests) != 2 {
		t.Fatalf("accepted as %+v", o)
	}
	if p := call(t, h, "POST", "/v1/components/driver/upgrade", "").wants(409).problem(); p.Operation != o.ID {
		t.Errorf("a second order: %+v", p)
	}
	if got := reasonOf(t, b.UpgradePod(t.Context(), "kube-system", "enflame-driver-x")); got != request.ReasonDisconnected {
		t.Errorf("the path of OpenYurt refuses with %q, want Disconnected", got)
	}
	restarted := newBench(t, b.cluster, b.directory)
	restarted.reconnect(t)
	if requested := b.cluster.requested(); len(requested) != 2 || requested["enflame-driver"].Operation != o.ID {
		t.Errorf("after the connection is back these requests are submitted: %v", requested)
	}
	if got := call(t, restarted.handler(), "GET", "/v1/operations/"+o.ID, "").operation(); got.State != request.Waiting || got.Offline != "" {
		t.Errorf("the operation is %+v", got)
	}
}

func TestWhatChangedWhileItWasQueuedIsDropped(t *testing.T) {
	newer := func(p *corev1.Pod) {
		p.Status.Conditions[0].Message = topsv1.PodNeedUpgradeMessagePrefix + "def456"
	}
	for name, test := range map[string]struct {
		body   string
		change func(c *fakeCluster, driver *corev1.Pod)
		state  request.State
		says   string
	}{
		"a newer revision drops it": {"", func(_ *fakeCluster, p *corev1.Pod) { newer(p) }, request.Dropped, "def456 is the newest by now"},
		"a newer revision is what the latest is": {`{"revision":"latest"}`, func(_ *fakeCluster, p *corev1.Pod) { newer(p) }, request.Waiting,
			"not answered"},
		"a pod that was recreated is another one": {"", func(_ *fakeCluster, p *corev1.Pod) { p.UID = "another" }, request.Dropped, "was replaced"},
		"the latest of a pod that was recreated":  {`{"revision":"latest"}`, func(_ *fakeCluster, p *corev1.Pod) { p.UID = "another" }, request.Waiting, "not answered"},
		"a pod that is up to date by now":         {"", func(_ *fakeCluster, p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, request.Dropped, "nothing to upgrade"},
		"the latest of a pod that is up to date by now": {`{"revision":"latest"}`, func(_ *fakeCluster, p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		}, request.Dropped, "nothing to upgrade"},
		"a DaemonSet that left OTA": {"", func(c *fakeCluster, _ *corev1.Pod) {
			c.daemonSets["kube-system/enflame-driver"].Annotations = nil
		}, request.Dropped, "not the update strategy OTA"},
		"a pod that is gone": {"", func(c *fakeCluster, p *corev1.Pod) { delete(c.pods, "kube-system/"+p.Name) }, request.Dropped, "was replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFleet()
			b := seenBench(t, c)
			id := call(t, b.handler(), "POST", "/v1/components/driver/upgrade", test.body).wants(202).operation().ID
			c.set(func() { test.change(c, c.pods["kube-system/enflame-driver-x"]) })
			b.reconnect(t)
			o := call(t, b.handler(), "GET", "/v1/operations/"+id, "").operation()
			if o.State != test.state || !strings.Contains(o.Message, test.says) {
				t.Errorf("%s: %q, want %s with %q", o.State, o.Message, test.state, test.says)
			}
			submitted := c.requested()
			if test.state == request.Dropped && len(submitted) != 0 || test.state == request.Waiting && len(submitted) != 1 {
				t.Errorf("submitted are %v", submitted)
			}
			if r, is := submitted["enflame-driver"]; is && string(r.Pod.UID) != string(c.pods["kube-system/enflame-driver-x"].UID) {
				t.Errorf("asked for pod %s, want the one there is", r.Pod.UID)
			}
		})
	}
}

func TestAnAgentThatHasSeenNothingCanOnlyQueueTheLatest(t *testing.T) {
	c := newFleet()
	c.unreachable = errUnreachable
	b := newBench(t, c, t.TempDir())
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(503)
	if len(b.loop.journals.Operations.List) != 0 {
		t.Errorf("refused, and recorded: %+v", b.loop.journals.Operations.List)
	}
	call(t, b.handler(), "POST", "/v1/upgrade", `{"revision":"latest"}`).wants(202)
	b.reconnect(t)
	if len(c.requested()) != 2 {
		t.Errorf("requests %v", c.requested())
	}
}

func TestAnAPIServerThatRefusesIsNotAway(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.set(func() { c.node.UID = "another" }) // the NodeUpgrade belongs to an earlier Node
	call(t, b.handler(), "POST", "/v1/upgrade", "").wants(503)
	if len(b.loop.journals.Operations.List) != 0 {
		t.Errorf("refused, and recorded: %+v", b.loop.journals.Operations.List)
	}
}

// The operation of a repeated call is recorded, whatever the API server says since.
func TestARepeatedCallNeedsNoAPIServer(t *testing.T) {
	for name, refuse := range map[string]func(c *fakeCluster){
		"refuses": func(c *fakeCluster) { c.node.UID = "another" },
		"is away": func(c *fakeCluster) { c.unreachable = errUnreachable },
	} {
		t.Run(name, func(t *testing.T) {
			c := newFleet()
			b := newBench(t, c, t.TempDir())
			upgrade := func(path string) string {
				return call(t, b.handler(), "POST", path, "", "Idempotency-Key", "once").wants(202).operation().ID
			}
			first := upgrade("/v1/upgrade")
			c.set(func() { refuse(c) })
			if again := upgrade("/v1/upgrade"); again != first {
				t.Errorf("%s, then %s", first, again)
			}
			call(t, b.handler(), "POST", "/v1/components/driver/upgrade", "", "Idempotency-Key", "once").wants(422)
		})
	}
}

// TestKilledAtEveryStepOfAccepting snapshots the files before the operator is told, and
// then leaves out the last writes one by one: the agent may be killed at each of these
// moments.
func TestKilledAtEveryStepOfAccepting(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	atApply := filepath.Join(t.TempDir(), "state")
	c.onApply = func() {
		c.onApply = nil
		if err := os.CopyFS(atApply, os.DirFS(b.directory)); err != nil {
			t.Errorf("copying the state: %v", err)
		}
	}
	if err := b.syncOnce(t.Context()); err != nil { // the first apply is the agent's own status
		t.Fatal(err)
	}
	if err := os.RemoveAll(atApply); err != nil {
		t.Fatal(err)
	}
	c.onApply = func() {
		c.onApply = nil
		if err := os.CopyFS(atApply, os.DirFS(b.directory)); err != nil {
			t.Errorf("copying the state: %v", err)
		}
	}
	id := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation().ID
	requests, err := filepath.Glob(filepath.Join(atApply, "requests", "*.json"))
	if err != nil || len(requests) != 2 {
		t.Fatalf("requests on the disk when the operator is told: %v, %v", requests, err)
	}
	want := c.requested()
	for applied := range 2 {
		for written := range len(requests) + 1 {
			t.Run(fmt.Sprintf("%d of 2 requests recorded, applied %d times", written, applied), func(t *testing.T) {
				if applied == 1 && written < len(requests) {
					return // recorded before they are applied
				}
				state := filepath.Join(t.TempDir(), "state")
				if err := os.CopyFS(state, os.DirFS(atApply)); err != nil {
					t.Fatal(err)
				}
				for _, path := range requests[written:] {
					if err := os.Remove(filepath.Join(state, "requests", filepath.Base(path))); err != nil {
						t.Fatal(err)
					}
				}
				if applied == 0 {
					c.set(func() { c.nodeUpgrade.Status.Requests = nil })
				}
				restarted := newBench(t, c, state)
				for range 2 {
					if err := restarted.syncOnce(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				got := c.requested()
				for name := range want {
					if got[name].ID != want[name].ID || len(got) != len(want) {
						t.Errorf("requests %v, want %v", got, want)
					}
				}
				if o := call(t, restarted.handler(), "GET", "/v1/operations/"+id, "").wants(200).operation(); o.State != request.Waiting || len(o.Requests) != 2 {
					t.Errorf("the operation is %+v", o)
				}
			})
		}
	}
}

func TestARequestThatWasMadeAloneIsTakenIntoTheOperation(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	b.mustUpgrade(t, "enflame-driver-x")
	before := b.cluster.requested()["enflame-driver"]
	o := call(t, b.handler(), "POST", "/v1/upgrade", "").wants(202).operation()
	if len(o.Requests) != 2 || b.cluster.requested()["enflame-driver"] != before {
		t.Errorf("operation %+v, request %+v, was %+v", o, b.cluster.requested()["enflame-driver"], before)
	}
	b.cluster.answerAll(topsv1.TaskDone, "replaced")
	b.lookAtCluster()
	if o = call(t, b.handler(), "GET", "/v1/operations/"+o.ID, "").operation(); o.State != request.Done {
		t.Errorf("operation %+v", o)
	}
}

func TestPodsAreShownAsTheyWereSeen(t *testing.T) {
	b := seenBench(t, newFleet())
	for _, restart := range []bool{false, true} {
		if restart {
			// The latest file is torn, so the previous generation is used.
			if err := os.WriteFile(filepath.Join(b.directory, "seen", "node.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			b = newBench(t, b.cluster, b.directory)
		}
		a := call(t, b.handler(), "GET", "/pods", "").wants(200)
		if list := decoded[corev1.PodList](a); len(list.Items) != 4 || list.Kind != "PodList" || !strings.HasPrefix(a.header.Get("Warning"), "110 ") {
			t.Errorf("restart=%t: %d pods, Warning %q", restart, len(list.Items), a.header.Get("Warning"))
		}
		if s := decoded[response.Status](call(t, b.handler(), "GET", "/v1/status", "")); s.Connected || s.AsOf == nil || len(s.Components) != 3 {
			t.Errorf("restart=%t: status %+v", restart, s)
		}
		if !restart { // a second generation
			b.cluster.set(func() { b.cluster.unreachable = nil; b.cluster.pods["kube-system/somebody"].ResourceVersion = "2" })
			call(t, b.handler(), "GET", "/pods", "").wants(200)
			b.cluster.set(func() { b.cluster.unreachable = errUnreachable })
		}
	}
}
