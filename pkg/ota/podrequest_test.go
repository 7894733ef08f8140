package ota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/test/fixture"
)

// Bounds of package request.
const maxOpenRequests, keptRequests = 64, 20

// requestOf returns the first request for a pod.
func requestOf(t *testing.T, pod *corev1.Pod) request.Request {
	t.Helper()
	wanted, refusal := request.Decide(pod, "node-a")
	if refusal != nil {
		t.Fatal(refusal)
	}
	r, _, refusal := request.Admit(nil, nil, wanted, metav1.Unix(1000, 0))
	if refusal != nil {
		t.Fatal(refusal)
	}
	return r
}

// task answers a request.
func task(id string, state topsv1.TaskState) topsv1.UpgradeTask {
	return topsv1.UpgradeTask{RequestID: id, Name: "node-a_driver_replace", State: state}
}

// reasonOf returns the reason of a refusal, "" for nil.
func reasonOf(t *testing.T, err error) request.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var refusal *request.Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("error %v is not a Refusal", err)
	}
	return refusal.Reason
}

func (b *bench) mustUpgrade(t *testing.T, pod string) {
	t.Helper()
	if err := b.UpgradePod(t.Context(), "kube-system", pod); err != nil {
		t.Fatalf("asking for %s: %v", pod, err)
	}
}

func podNamed(i int) *corev1.Pod {
	pod := fixture.OutdatedPod()
	pod.Name, pod.UID = fmt.Sprintf("pod-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
	return pod
}

func TestUpgradePodStoresAndShowsARequestOnce(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	b.mustUpgrade(t, "driver-x")
	want := []string{requestOf(t, fixture.OutdatedPod()).ID}
	if diff := cmp.Diff(want, b.journaled(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, b.cluster.submitted()); diff != "" {
		t.Errorf("status.requests (-want +got):\n%s", diff)
	}
	b.clock.Step(time.Hour)
	b.mustUpgrade(t, "driver-x")
	if b.cluster.applies != 1 {
		t.Errorf("%d applies after a repeated request, want 1", b.cluster.applies)
	}
}

// Each call may take a full round trip to the API server.
func TestARequestTakesFourCalls(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod(), podNamed(1)), t.TempDir())
	b.mustUpgrade(t, "driver-x")
	before := b.cluster.calls
	b.mustUpgrade(t, "pod-1")
	if got := b.cluster.calls - before; got > 4 {
		t.Errorf("%d calls: the Node, the NodeUpgrade, the pod and the apply are four", got)
	}
}

func TestFiftyCallersAtOnceMakeOneRequest(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if err := b.UpgradePod(t.Context(), "kube-system", "driver-x"); err != nil {
				t.Errorf("asking: %v", err)
			}
		})
	}
	asking.Wait()
	if submitted, kept := b.cluster.submitted(), b.journaled(t); len(submitted) != 1 || len(kept) != 1 {
		t.Errorf("submitted %v, kept %v", submitted, kept)
	}
}

func TestUpgradePodRefusesMalformedNamesBeforeAnyCall(t *testing.T) {
	cluster := newFakeCluster()
	b := newBench(t, cluster, t.TempDir())
	if got := reasonOf(t, b.UpgradePod(t.Context(), "kube-system", "../nodes/x")); got != request.ReasonMalformed {
		t.Errorf("reason %q, want Malformed", got)
	}
	if cluster.calls != 0 {
		t.Errorf("%d calls were made for a malformed name", cluster.calls)
	}
}

// denied is the denial of a webhook, which may choose any code.
func denied(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: `admission webhook "w" denied the request: not on Fridays`}}
}

// What the agent says about a NodeUpgrade that may not be created is what the webhook says, not that there is none.
func TestADeniedNodeUpgradeIsNotTakenForOneThatExists(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	b.cluster.set(func() { b.cluster.createFails = denied(409, metav1.StatusReasonAlreadyExists) })
	if err := b.syncOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "not on Fridays") {
		t.Errorf("the error is %v, want what the webhook says", err)
	}
}

func TestUpgradePodStoresNothingWhenItCannotBeSubmitted(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt func(*fakeCluster)
		says    string
	}{
		"the API server is away": {func(c *fakeCluster) { c.unreachable = errUnreachable }, "Nothing was recorded"},
		"the apply is rejected":  {func(c *fakeCluster) { c.applyFails = errForbidden }, "Nothing was recorded"},
		"a webhook denies the apply, with the code of a server that is away": {func(c *fakeCluster) { c.applyFails = denied(503, metav1.StatusReasonServiceUnavailable) }, "not on Fridays"},
		"the Node does not exist":          {func(c *fakeCluster) { c.node = nil }, "getting Node node-a"},
		"the Node was recreated":           {func(c *fakeCluster) { c.node.UID = "later" }, "kubectl delete nodeupgrade node-a"},
		"the NodeUpgrade is being deleted": {func(c *fakeCluster) { now := c.node.CreationTimestamp; c.nodeUpgrade.DeletionTimestamp = &now }, "being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
			if err := b.syncOnce(t.Context()); err != nil {
				t.Fatalf("first contact: %v", err)
			}
			b.cluster.set(func() { test.breakIt(b.cluster) })
			err := b.UpgradePod(t.Context(), "kube-system", "driver-x")
			if got := reasonOf(t, err); got != request.ReasonDisconnected {
				t.Fatalf("reason %q, want Disconnected", got)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if ids := b.journaled(t); len(ids) != 0 {
				t.Errorf("journal holds %v after a refusal", ids)
			}
		})
	}
}

// TestARequestIsKeptWhenItMayHaveBeenSubmitted: without a response the operator may have the request, and may replace
// the pod at any moment.
func TestARequestIsKeptWhenItMayHaveBeenSubmitted(t *testing.T) {
	for name, lost := range map[string]error{
		"the connection ends":                          io.ErrUnexpectedEOF,
		"the caller disconnects":                       context.Canceled,
		"the API server times out":                     apierrors.NewTimeoutError("etcd", 1),
		"a proxy responds in place of the API server":  apierrors.NewGenericServerResponse(502, "PATCH", schema.GroupResource{}, "", "", 0, true),
		"the API server cannot tell what became of it": apierrors.NewInternalError(errUnreachable),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
			b.sync(t)
			b.cluster.set(func() { b.cluster.responseLost = lost })
			err := b.UpgradePod(t.Context(), "kube-system", "driver-x")
			if reasonOf(t, err) != request.ReasonDisconnected || !strings.Contains(err.Error(), "kept on this node") {
				t.Errorf("error is %v, want one that says the request is kept", err)
			}
			b.cluster.set(func() { b.cluster.responseLost = nil })
			b.sync(t)
			want := []string{requestOf(t, fixture.OutdatedPod()).ID}
			if diff := cmp.Diff(want, b.journaled(t)); diff != "" {
				t.Errorf("journal (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, b.cluster.submitted()); diff != "" {
				t.Errorf("status.requests (-want +got):\n%s", diff)
			}
			b.mustUpgrade(t, "driver-x")
			if diff := cmp.Diff(want, b.cluster.submitted()); diff != "" {
				t.Errorf("status.requests after a repeated POST (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpgradePodSucceedsAfterARefusal(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	b.cluster.applyFails = errForbidden
	if err := b.UpgradePod(t.Context(), "kube-system", "driver-x"); err == nil {
		t.Fatal("no refusal although the apply failed")
	}
	b.cluster.applyFails = nil
	b.mustUpgrade(t, "driver-x")
	if len(b.journaled(t)) != 1 || len(b.cluster.submitted()) != 1 {
		t.Errorf("journal %v, submitted %v; want one request", b.journaled(t), b.cluster.submitted())
	}
}

func TestARepeatedRequestReportsTheStoredOne(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	b.mustUpgrade(t, "driver-x")
	b.cluster.set(func() { b.cluster.nodeUpgrade.Status.Requests = nil; b.cluster.applyFails = errUnreachable })
	err := b.UpgradePod(t.Context(), "kube-system", "driver-x")
	if reasonOf(t, err) != request.ReasonDisconnected || !strings.Contains(err.Error(), "still kept") {
		t.Errorf("error is %v, want one that says the request is still kept", err)
	}
	if len(b.journaled(t)) != 1 {
		t.Error("a request that was accepted before was dropped")
	}
}

// TestARequestThatAQueuedOperationHasIsSubmitted: the agent was killed in sending the operation, so that the operator has the request
// for one pod of two.
func TestARequestThatAQueuedOperationHasIsSubmitted(t *testing.T) {
	b := halfSent(t, newFleet(), 2)
	b.cluster.set(func() { b.cluster.unreachable = nil })
	b.mustUpgrade(t, "enflame-toolkit-x") // before the loop is back
	if requested := b.cluster.requested(); requested["enflame-toolkit"].ID == "" || len(b.cluster.submitted()) != 2 {
		t.Errorf("the request is accepted, and these are submitted: %v", requested)
	}

	b = halfSent(t, newFleet(), 2)
	b.cluster.set(func() { b.cluster.unreachable, b.cluster.applyFails = nil, errUnreachable })
	if err := b.UpgradePod(t.Context(), "kube-system", "enflame-toolkit-x"); reasonOf(t, err) != request.ReasonDisconnected {
		t.Errorf("when it cannot be submitted, the answer is %v", err)
	}
}

func TestUpgradePodAfterAFailureIsANewRequest(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	b.mustUpgrade(t, "driver-x")
	first := b.cluster.submitted()[0]
	b.cluster.set(func() {
		b.cluster.nodeUpgrade.Status.Tasks = []topsv1.UpgradeTask{task(first, topsv1.TaskFailed)}
	})
	b.mustUpgrade(t, "driver-x")
	want := []string{first, first + "-2"}
	if diff := cmp.Diff(want, b.cluster.submitted()); diff != "" {
		t.Errorf("status.requests (-want +got):\n%s", diff)
	}
	b.mustUpgrade(t, "driver-x")
	if diff := cmp.Diff(want, b.journaled(t)); diff != "" {
		t.Errorf("journal after a third POST (-want +got):\n%s", diff)
	}
}

func TestUpgradePodReportsADiskThatCannotBeWritten(t *testing.T) {
	b := newBench(t, newFakeCluster(fixture.OutdatedPod()), t.TempDir())
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	// File modes would not stop root, so remove the directory.
	if err := os.RemoveAll(filepath.Join(b.directory, "requests")); err != nil {
		t.Fatal(err)
	}
	err := b.UpgradePod(t.Context(), "kube-system", "driver-x")
	if reasonOf(t, err) != request.ReasonNotRecorded || !strings.Contains(err.Error(), "Make room") {
		t.Errorf("error is %v, want NotRecorded with advice", err)
	}
	if len(b.cluster.submitted()) != 0 {
		t.Error("a request that is not recorded was submitted")
	}
}

func TestFinishedRequestsAreTrimmedAndOpenOnesKept(t *testing.T) {
	cluster := newFakeCluster()
	for i := range maxOpenRequests + 1 {
		pod := podNamed(i)
		cluster.pods[pod.Namespace+"/"+pod.Name] = pod
	}
	b := newBench(t, cluster, t.TempDir())
	for i := range maxOpenRequests {
		b.mustUpgrade(t, fmt.Sprintf("pod-%d", i))
	}
	overflow := fmt.Sprintf("pod-%d", maxOpenRequests)
	if got := reasonOf(t, b.UpgradePod(t.Context(), "kube-system", overflow)); got != request.ReasonTooMany {
		t.Fatalf("reason %q for request %d, want TooMany", got, maxOpenRequests+1)
	}
	ids := cluster.submitted()
	cluster.set(func() {
		for _, id := range ids[:60] {
			cluster.nodeUpgrade.Status.Tasks = append(cluster.nodeUpgrade.Status.Tasks, task(id, topsv1.TaskDone))
		}
	})
	b.mustUpgrade(t, overflow)
	submitted := cluster.submitted()
	if len(submitted) != keptRequests {
		t.Fatalf("%d requests are submitted, want %d", len(submitted), keptRequests)
	}
	if diff := cmp.Diff(ids[60:], submitted[keptRequests-5:keptRequests-1]); diff != "" {
		t.Errorf("open requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(submitted, b.journaled(t)); diff != "" {
		t.Errorf("submitted and journaled differ:\n%s", diff)
	}
}

func TestKilledBetweenJournalAndApplyGoesOn(t *testing.T) {
	cluster := newFakeCluster(fixture.OutdatedPod())
	b := newBench(t, cluster, t.TempDir())
	killed := t.TempDir()
	cluster.onApply = func() {
		// The disk as a kill at this moment leaves it.
		if err := os.CopyFS(filepath.Join(killed, "state"), os.DirFS(b.directory)); err != nil {
			t.Errorf("copying the state: %v", err)
		}
		cluster.set(func() { cluster.applyFails = errUnreachable })
	}
	if err := b.UpgradePod(t.Context(), "kube-system", "driver-x"); err == nil {
		t.Fatal("the request was accepted although the apply failed")
	}
	cluster.onApply = nil
	cluster.set(func() { cluster.applyFails = nil })

	restarted := newBench(t, cluster, filepath.Join(killed, "state"))
	if err := restarted.syncOnce(t.Context()); err != nil {
		t.Fatalf("first pass after the kill: %v", err)
	}
	if len(cluster.submitted()) != 1 {
		t.Errorf("after the restart %v is submitted, want the journaled request", cluster.submitted())
	}
}

func TestLostJournalIsTakenOverFromTheNodeUpgrade(t *testing.T) {
	cluster := newFakeCluster(fixture.OutdatedPod(), podNamed(1))
	b := newBench(t, cluster, t.TempDir())
	b.mustUpgrade(t, "driver-x")
	b.mustUpgrade(t, "pod-1")
	want := cluster.submitted()

	reinstalled := newBench(t, cluster, t.TempDir())
	if err := reinstalled.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, reinstalled.journaled(t)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, cluster.submitted()); diff != "" {
		t.Errorf("status.requests (-want +got):\n%s", diff)
	}
}

func TestAFinishedRequestIsNotRepeatedWhenTheStatusIsLost(t *testing.T) {
	cluster := newFakeCluster(fixture.OutdatedPod(), podNamed(1))
	b := newBench(t, cluster, t.TempDir())
	b.mustUpgrade(t, "driver-x")
	b.mustUpgrade(t, "pod-1")
	ids := cluster.submitted()
	cluster.set(func() {
		cluster.nodeUpgrade.Status.Tasks = []topsv1.UpgradeTask{task(ids[0], topsv1.TaskFailed)}
	})
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster.set(func() { cluster.nodeUpgrade = nil })
	if err := b.syncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ids[1:], cluster.submitted()); diff != "" {
		t.Errorf("status.requests (-want +got):\n%s", diff)
	}
	if cluster.creates != 2 {
		t.Errorf("the NodeUpgrade was created %d times, want 2", cluster.creates)
	}
}

// TestARequestInTheMiddleOfAnUpgradeChangesNothing repeats a request at every stage of the
// upgrade that it started.
func TestARequestInTheMiddleOfAnUpgradeChangesNothing(t *testing.T) {
	pod := fixture.OutdatedPod()
	key := pod.Namespace + "/" + pod.Name
	c := newFakeCluster(pod)
	b := newBench(t, c, t.TempDir())
	b.mustUpgrade(t, pod.Name)
	first := c.submitted()
	answers := func(state topsv1.TaskState) {
		c.set(func() { c.nodeUpgrade.Status.Tasks = []topsv1.UpgradeTask{{RequestID: first[0], State: state}} })
	}
	for _, stage := range []struct {
		what   string
		change func()
		want   request.Reason
	}{
		{"it waits", func() { answers(topsv1.TaskWaiting) }, ""},
		{"it runs, the pod is there", func() { answers(topsv1.TaskRunning) }, ""},
		{"the pod goes", func() { c.set(func() { c.pods[key].DeletionTimestamp = &metav1.Time{Time: b.clock.Now()} }) }, request.ReasonTerminating},
		{"the pod is gone", func() { c.set(func() { delete(c.pods, key) }) }, request.ReasonPodMissing},
		{"its successor is there, not yet looked at", func() {
			c.set(func() {
				next := fixture.OutdatedPod()
				next.UID, next.Status.Conditions = "successor", nil
				c.pods[key] = next
			})
		}, request.ReasonNotNeeded},
		{"its successor is at the newest revision", func() {
			answers(topsv1.TaskDone)
			c.set(func() {
				c.pods[key].Status.Conditions = fixture.OutdatedPod().Status.Conditions
				c.pods[key].Status.Conditions[0].Status = corev1.ConditionFalse
			})
		}, request.ReasonNotNeeded},
	} {
		stage.change()
		err := b.UpgradePod(t.Context(), pod.Namespace, pod.Name)
		if stage.want == "" && err != nil || stage.want != "" && reasonOf(t, err) != stage.want {
			t.Errorf("%s: asked again, the answer is %v, want %q", stage.what, err, stage.want)
		}
		if diff := cmp.Diff(first, c.submitted()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", stage.what, diff)
		}
	}
}
