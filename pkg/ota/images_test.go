package ota

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const pullPath = "/openyurt.io/v1/namespaces/kube-system/pods/enflame-driver-x/imagepull"

// conditions of the driver's pod, as GET /pods shows them: type=status/reason.
func (b *bench) conditions(t *testing.T) []string {
	t.Helper()
	var got []string
	for _, pod := range decoded[corev1.PodList](call(t, b.handler(), "GET", "/pods", "").wants(200)).Items {
		if pod.Name == "enflame-driver-x" {
			for _, c := range pod.Status.Conditions {
				got = append(got, string(c.Type)+"="+string(c.Status)+"/"+c.Reason)
			}
		}
	}
	return got
}

func (b *bench) wantConditions(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{"PodNeedUpgrade=True/"}, want...), b.conditions(t)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// endPull lets the pulls that are under way end in a state.
func (b *bench) endPull(t *testing.T, state topsv1.HostTaskState) {
	t.Helper()
	v := decide(b.cluster.pods["kube-system/enflame-driver-x"], "node-a")
	b.images.mu.Lock()
	b.images.results[pullID(v)] = &topsv1.HostTaskResult{State: state, Message: "unauthorized"}
	close(b.images.released)
	b.images.mu.Unlock()
	until(t, "the pull has ended", func() bool { return !b.pulls.isUnderWay(pullID(v)) })
}

func TestImagesArePulledOnceAtATime(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	h := b.handler()
	b.wantConditions(t)
	b.images.released = make(chan struct{})
	for range 3 {
		if a := call(t, h, "POST", pullPath, "").wants(200); string(a.body) != "Image pre-pull requested for pod kube-system/enflame-driver-x" {
			t.Errorf("answered with %q", a.body)
		}
	}
	b.wantConditions(t, "PodImageReady=False/WaitPullImage")
	if got := reasonOf(t, b.Ask(t.Context(), "kube-system", "enflame-driver-x")); got != ReasonImageNotReady {
		t.Errorf("while the images are pulled an upgrade is refused with %q", got)
	}
	b.endPull(t, topsv1.HostTaskFailed)
	b.wantConditions(t, "PodImageReady=False/PullImageFail")
	want := topsv1.OperationTarget{
		DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "enflame-driver", UID: "ds-driver"}, Revision: newestHash,
		Images: []string{"r/init:1", "r/driver:2.0"}, PullSecrets: []string{"pull"},
	}
	if diff := cmp.Diff([]topsv1.OperationTarget{want}, b.images.pulled); diff != "" {
		t.Errorf("pulled (-want +got):\n%s", diff)
	}
}

func TestAFailedPullCanBeRepeatedAndLocksNothing(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	b.images.released = make(chan struct{})
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	b.endPull(t, topsv1.HostTaskFailed)
	b.mustAsk(t, "enflame-driver-x")

	b.images.released = make(chan struct{})
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	b.endPull(t, topsv1.HostTaskDone)
	b.wantConditions(t, "PodImageReady=True/PullImageSuccess")
	if len(b.images.pulled) != 2 {
		t.Errorf("pulled %d times", len(b.images.pulled))
	}
}

func TestAPullThatTheAgentDiedOverLocksNothing(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	v := decide(c.pods["kube-system/enflame-driver-x"], "node-a")
	b.images.results[pullID(v)] = &topsv1.HostTaskResult{State: topsv1.HostTaskRunning}
	b.wantConditions(t)
	b.mustAsk(t, "enflame-driver-x")
}

func TestPullsThatAreRefused(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	h := b.handler()
	path := func(pod string) string { return "/openyurt.io/v1/namespaces/kube-system/pods/" + pod + "/imagepull" }
	call(t, h, "POST", path("somebody"), "").wants(400)
	call(t, h, "POST", path("nobody"), "").wants(404)
	call(t, h, "POST", path("Bad_Name"), "").wants(400)
	call(t, h, "POST", path("enflame-exporter-x"), "").wants(403)
	c.set(func() { delete(c.revisions, "kube-system/enflame-toolkit-"+newestHash) })
	call(t, h, "POST", path("enflame-toolkit-x"), "").wants(403)
	c.set(func() { c.away = errAway })
	call(t, h, "POST", pullPath, "").wants(503)
	if len(b.images.pulled) != 0 {
		t.Errorf("pulled %v", b.images.pulled)
	}
}

func TestPullsEndWithTheAgent(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	b.images.released = make(chan struct{}) // never closed
	stop := b.run(t)
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	stop()
}
