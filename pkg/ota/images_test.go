package ota

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

const pullPath = "/openyurt.io/v1/namespaces/kube-system/pods/enflame-driver-x/imagepull"

// conditions returns those of the driver's pod as GET /pods shows them: type=status/reason.
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

// pullOf returns the id of the pull of a pod's newest images, "" if it may not be
// requested.
func pullOf(pod *corev1.Pod) string {
	wanted, refusal := request.Decide(pod, "node-a")
	if refusal != nil {
		return ""
	}
	return request.PullID(wanted)
}

// endPull ends the running pulls with a state.
func (b *bench) endPull(t *testing.T, state topsv1.HostTaskState) {
	t.Helper()
	id := pullOf(b.cluster.pods["kube-system/enflame-driver-x"])
	b.images.mu.Lock()
	b.images.results[id] = &topsv1.HostTaskResult{State: state, Message: "unauthorized"}
	close(b.images.released)
	b.images.mu.Unlock()
	until(t, "the pull has ended", func() bool { return !b.loop.pulls.isUnderWay(id) })
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
	if got := reasonOf(t, b.UpgradePod(t.Context(), "kube-system", "enflame-driver-x")); got != request.ReasonImageNotReady {
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
	b.mustUpgrade(t, "enflame-driver-x")

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
	id := pullOf(c.pods["kube-system/enflame-driver-x"])
	b.images.results[id] = &topsv1.HostTaskResult{State: topsv1.HostTaskRunning}
	b.wantConditions(t)
	b.mustUpgrade(t, "enflame-driver-x")
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
	c.set(func() { c.unreachable = errUnreachable })
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

// shownPulls syncs, and returns state and message of status.pulls.
func (b *bench) shownPulls(t *testing.T) []string {
	t.Helper()
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatalf("syncing: %v", err)
	}
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	got := []string{}
	for _, p := range b.cluster.nodeUpgrade.Status.Pulls {
		if p.ID != request.PullID(topsv1.UpgradeRequest{Pod: p.Pod, Revision: p.Revision}) || p.DaemonSet.Name == "" || p.Time.IsZero() {
			t.Errorf("pull %+v", p)
		}
		got = append(got, p.Pod.Name+" "+string(p.State)+" "+p.Message)
	}
	return got
}

func (b *bench) wantPulls(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), b.shownPulls(t)); diff != "" {
		t.Errorf("status.pulls (-want +got):\n%s", diff)
	}
}

func TestPullsAreShownToTheOperator(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	b.wantPulls(t)
	b.images.released = make(chan struct{})
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	b.wantPulls(t, "enflame-driver-x Pulling ")
	b.endPull(t, topsv1.HostTaskFailed)
	b.wantPulls(t, "enflame-driver-x Failed unauthorized")
	written := c.applies
	b.wantPulls(t, "enflame-driver-x Failed unauthorized")
	if c.applies != written {
		t.Error("what has not changed was written again")
	}
	b.images.released = make(chan struct{})
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	b.endPull(t, topsv1.HostTaskDone)
	b.wantPulls(t, "enflame-driver-x Ready ")

	// The next agent learns of it from the NodeUpgrade and the record on disk.
	next := newBench(t, c, t.TempDir())
	next.images = b.images
	next.loop.pulls.puller = b.images
	next.wantPulls(t, "enflame-driver-x Ready ")
	c.set(func() { c.nodeUpgrade.Status.Pulls = nil })
	next.wantPulls(t) // the request is lost with the status, so it may be repeated
}

func TestAPullForAPodThatIsNewerThanTheLastLookIsReported(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	b.wantPulls(t) // reads the pods
	c.set(func() { c.pods["kube-system/enflame-driver-x"].UID = "newer" })
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	b.images.mu.Lock()
	b.images.results[pullOf(c.pods["kube-system/enflame-driver-x"])] = &topsv1.HostTaskResult{State: topsv1.HostTaskDone}
	b.images.mu.Unlock()
	until(t, "the pull has ended", func() bool {
		return !b.loop.pulls.isUnderWay(pullOf(c.pods["kube-system/enflame-driver-x"]))
	})
	b.wantPulls(t, "enflame-driver-x Ready ")
}

func TestAPullReportsAFailedRecord(t *testing.T) {
	b := newBench(t, newFleet(), t.TempDir())
	b.images.refuses = errors.New("no space left on device")
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	id := pullOf(b.cluster.pods["kube-system/enflame-driver-x"])
	until(t, "it was refused", func() bool { return !b.loop.pulls.isUnderWay(id) })
	b.wantConditions(t, "PodImageReady=False/PullImageFail")
	b.wantPulls(t, "enflame-driver-x Failed no space left on device")
	b.mustUpgrade(t, "enflame-driver-x")
	b.images.refuses = nil
	b.images.results[id] = &topsv1.HostTaskResult{State: topsv1.HostTaskDone}
	call(t, b.handler(), "POST", pullPath, "").wants(200)
	until(t, "it was pulled", func() bool { return !b.loop.pulls.isUnderWay(id) })
	b.wantPulls(t, "enflame-driver-x Ready ")
}

func TestAPullIsNotShownForEver(t *testing.T) {
	for name, change := range map[string]func(b *bench, c *fakeCluster, id string){
		"its pod was replaced": func(_ *bench, c *fakeCluster, _ string) { c.pods["kube-system/enflame-driver-x"].UID = "another" },
		"its pod is gone":      func(_ *bench, c *fakeCluster, _ string) { delete(c.pods, "kube-system/enflame-driver-x") },
		"the revision moved on": func(_ *bench, c *fakeCluster, _ string) {
			c.pods["kube-system/enflame-driver-x"].Status.Conditions[0].Message = "controllerrevision: later"
		},
		"the agent died over it":   func(b *bench, _ *fakeCluster, id string) { b.images.results[id].State = topsv1.HostTaskRunning },
		"its record was forgotten": func(b *bench, _ *fakeCluster, id string) { delete(b.images.results, id) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newFleet()
			b := newBench(t, c, t.TempDir())
			b.images.released = make(chan struct{})
			call(t, b.handler(), "POST", pullPath, "").wants(200)
			id := pullOf(c.pods["kube-system/enflame-driver-x"])
			b.endPull(t, topsv1.HostTaskDone)
			b.wantPulls(t, "enflame-driver-x Ready ")
			c.set(func() { change(b, c, id) })
			b.wantPulls(t)
		})
	}
}

func TestWhatTheOperatorSaidOnThePodIsReplacedByWhatIsKnownHere(t *testing.T) {
	c := newFleet()
	b := newBench(t, c, t.TempDir())
	pod := c.pods["kube-system/enflame-driver-x"]
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: topsv1.PodImageReady, Status: "False", Reason: "WaitPullImage"})
	b.images.results[pullOf(pod)] = &topsv1.HostTaskResult{State: topsv1.HostTaskDone}
	b.wantConditions(t, "PodImageReady=True/PullImageSuccess")
}
