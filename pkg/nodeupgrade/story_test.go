package nodeupgrade

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// ends checks how an operation ended, and the final state of the node.
func (s *stage) ends(how, marks, revisions string) {
	s.t.Helper()
	if got := s.untilOver(); got != how {
		s.t.Errorf("it ended %s, want %s: %s", got, how, s.upgrade().Status.Operation.Message)
	}
	if got := s.marks(); got != marks {
		s.t.Errorf("the node is %q, want %q", got, marks)
	}
	if got := s.revisions(); got != revisions {
		s.t.Errorf("pods are %s, want %s", got, revisions)
	}
}

func (s *stage) countEvents(what string) int {
	n := 0
	for _, line := range s.events.lines {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

func TestAWholeOperation(t *testing.T) {
	s := newStage(t, driver, toolkit, plugin, exporter, "nfd")
	s.workload("train")
	for _, c := range []string{driver, toolkit, exporter} {
		s.publish(c, "v2")
	}
	s.offer("op1", driver, toolkit, exporter)
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2, exporter v2, nfd v1, toolkit v2")
	want := map[string]int{driver: 2, toolkit: 2, plugin: 2, exporter: 2, "nfd": 1}
	if diff := cmp.Diff(want, s.created); diff != "" {
		t.Errorf("pods that were made: %s", diff)
	}
	if want := []string{"Normal Started operation op1 has its slot from ns/gr", "Normal Done operation op1 is done"}; !slices.Equal(want, s.events.lines) {
		t.Errorf("events: %q", s.events.lines)
	}
	written := len(s.line.writes)
	s.turn()
	s.turn()
	if more := s.line.writes[written:]; len(more) > 0 {
		t.Errorf("after its end: %q", more)
	}
	for _, metric := range []struct {
		name string
		want float64
	}{
		{"replace", testutil.ToFloat64(s.r.records.metrics.tasks.WithLabelValues(driver, "replace", "success"))},
		{"uncordon", testutil.ToFloat64(s.r.records.metrics.tasks.WithLabelValues("node", "uncordon", "success"))},
		{"restart", testutil.ToFloat64(s.r.records.metrics.restarts.WithLabelValues("docker", "success"))},
	} {
		if metric.want != 1 {
			t.Errorf("%s was counted %v times", metric.name, metric.want)
		}
	}
	if n := testutil.CollectAndCount(s.r.records.metrics.operations); n != 2 {
		t.Errorf("%d series of the latest operation, want its phase, and that no node is kept cordoned", n)
	}
}

func TestARefusedDrainReportsTheBudgetAndResumes(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.workload("train")
	allow := s.budget("work")
	allow(1)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.untilTask("node_cordon")
	allow(0)
	op := s.until("a refusal", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonDrainBlocked })
	want := "PodDisruptionBudget " + s.namespace + "/keep refuses: " + s.namespace + "/train"
	if op.Message != want {
		t.Errorf("%q, want %q", op.Message, want)
	}
	for range 4 {
		s.turn()
	}
	if n := s.countEvents("Warning DrainBlocked " + want); n != 1 {
		t.Errorf("it was told %d times: %q", n, s.events.lines)
	}
	if s.created[driver] != 1 {
		t.Error("the driver was replaced on a node that is not empty")
	}
	allow(1)
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
}

// What cannot leave is named before the slot is taken, and its neighbor is never evicted.
func TestANodeThatCannotBeEmptiedIsNotTouched(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.workload("train")
	kept := s.workload("kept", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	s.publish(driver, "v2")
	s.offer("op1", driver)
	op := s.until("what blocks", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonPrecheckFailed })
	if want := "drain.emptyDir: Delete evicts them): " + s.namespace + "/kept"; !strings.Contains(op.Message, want) {
		t.Errorf("%q, want %q in it", op.Message, want)
	}
	s.until("the end", func(op *topsv1.OperationStatus) bool { return op.Phase == topsv1.OperationDeferred })
	s.untouched()
	s.must(s.admin.Delete(s.ctx, kept, client.GracePeriodSeconds(0)))
	s.offer("op2", driver)
	s.until("the next operation", func(op *topsv1.OperationStatus) bool { return op.ID == "op2" })
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
}

// No event says that a budget allows an eviction, so an operation without a slot looks again.
func TestABudgetThatRefusesIsNamedBeforeTheNodeIsTouched(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.workload("train")
	s.workload("neighbor", func(p *corev1.Pod) { p.Labels = nil })
	allow := s.budget("work")
	allow(0)
	s.publish(driver, "v2")
	s.change(func(nu *topsv1.NodeUpgrade) {
		nu.Spec.Operation = s.operation("op1", driver)
		nu.Spec.Operation.Granted = false
	})
	op := s.until("a refusal", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonPrecheckFailed })
	if want := "PodDisruptionBudget " + s.namespace + "/keep refuses: " + s.namespace + "/train"; !strings.Contains(op.Message, want) {
		t.Errorf("%q, want %q in it", op.Message, want)
	}
	asked := len(s.line.writes)
	if r, err := s.reconcile(); err != nil || r.RequeueAfter > eviction.RetryInterval {
		t.Errorf("it looks again after %s: %v", r.RequeueAfter, err)
	}
	if again := s.line.writes[asked:]; len(again) > 0 {
		t.Errorf("asked or written within %s: %s", eviction.RetryInterval, again)
	}
	allow(1)
	s.until("its wait for a slot", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonAwaitingSlot })
	s.untouched()
}

// The clock of this manager is ahead of the API server's: it has evicted the pod before the drain began.
func TestAPodThatWasEvictedHasItsGracePeriod(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.workload("train", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(900)) })
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.change(func(nu *topsv1.NodeUpgrade) {
		nu.Spec.Operation.Drain = &topsv1.DrainPolicy{Scope: topsv1.DrainAccelerator, Resources: []string{"enflame.com/*"}, TimeoutSeconds: 20}
	})
	s.untilTask("node_evict")
	for range 20 { // the pod writes a checkpoint
		s.now = s.now.Add(turnTime)
		_, err := s.reconcile()
		s.must(err)
	}
	if op, want := s.upgrade().Status.Operation, "terminating: "+s.namespace+"/train"; op.Reason != operation.ReasonInProgress || op.Message != want {
		t.Errorf("after a minute: %s %s: %s, want %q", op.Phase, op.Reason, op.Message, want)
	}
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
}

func TestADrainThatIsNotAllowedInTimeGivesTheNodeBack(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.workload("train")
	allow := s.budget("work")
	allow(1)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.change(func(nu *topsv1.NodeUpgrade) {
		nu.Spec.Operation.Drain = &topsv1.DrainPolicy{Scope: topsv1.DrainAccelerator, Resources: []string{"enflame.com/*"}, TimeoutSeconds: 20}
	})
	s.untilTask("node_cordon")
	allow(0)
	s.ends("Deferred DrainTimeout", "", "devicePlugin v1, driver v1")
	if n := s.countEvents("Warning Deferred"); n != 1 {
		t.Errorf("events: %q", s.events.lines)
	}
}

func TestACordonOfAnotherClientStays(t *testing.T) {
	s := newStage(t, driver, plugin)
	node := s.readNode()
	s.must(s.admin.Patch(s.ctx, node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)), client.FieldOwner("kubectl-cordon")))
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.ends("Done Succeeded", "cordoned", "devicePlugin v1, driver v2")
}

func TestAnOperationThatIsEndedInTheMiddleLeavesNothingBehind(t *testing.T) {
	abort := func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Abort = true }
	withdraw := func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation = nil }
	for _, tc := range []struct {
		name, task string
		change     func(*topsv1.NodeUpgrade)
		how        string
	}{
		{"aborted while it is drained", "node_evict", abort, "Aborted Aborted"},
		{"aborted while the driver is replaced", "driver_replace", abort, "Aborted Aborted"},
		{"withdrawn while the driver is replaced", "driver_replace", withdraw, "Aborted Withdrawn"},
		{"withdrawn while the driver is verified", "driver_verify", withdraw, "Aborted Withdrawn"},
		{"aborted while it soaks", "node_soak", abort, "Aborted Aborted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t, driver, plugin)
			s.workload("train")
			s.publish(driver, "v2")
			s.offer("op1", driver)
			s.untilTask(tc.task)
			s.change(tc.change)
			if got := s.untilOver(); got != tc.how {
				t.Error(got)
			}
			if got := s.marks(); got != "" {
				t.Error(got)
			}
		})
	}
}

func TestAHeldNodeStaysClosedUntilAnotherOperation(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.results = map[string]topsv1.HostTaskState{"driver_verify": topsv1.HostTaskFailed}
	s.offer("op1", driver)
	s.ends("Failed held VerifyFailed", "cordoned, by op1, closed for op1", "driver v2")
	if n := s.countEvents("Warning Failed operation op1: VerifyFailed"); n != 1 || s.countEvents("the node stays cordoned") != 1 {
		t.Errorf("events: %q", s.events.lines)
	}
	if got := testutil.ToFloat64(s.r.records.metrics.tasks.WithLabelValues(driver, "verify", "failure")); got != 1 {
		t.Errorf("the failure was counted %v times", got)
	}
	s.start()
	s.must(s.r.Sweep(s.ctx))
	s.turn()
	if got := s.marks(); got != "cordoned, by op1, closed for op1" {
		t.Errorf("after a restart and a sweep: %s", got)
	}
	s.results = nil
	s.publish(driver, "v3")
	annotate := func(value string) {
		node := s.readNode()
		node.Annotations["weave.works/kured-reboot-in-progress"] = value
		s.must(s.admin.Update(s.ctx, node))
	}
	annotate("2030-01-01T00:00:00Z")
	ungranted := s.upgrade()
	ungranted.Spec.Operation = s.operation("op2", driver)
	quick(ungranted.Spec.Operation)
	ungranted.Spec.Operation.Granted = false // as the daemonupdater makes it
	s.must(s.admin.Update(s.ctx, ungranted))
	s.turn()
	if got := s.marks(); got != "cordoned, by op1, closed for op1" {
		t.Errorf("while the second operation has no slot: %s", got)
	}
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Granted = true })
	s.until("the second operation", func(op *topsv1.OperationStatus) bool { return op.ID == "op2" })
	s.ends("Deferred held PrecheckFailed", "cordoned, by op1", "devicePlugin v1, driver v2")
	s.start()
	s.must(s.r.Sweep(s.ctx))
	s.turn()
	if got := s.marks(); got != "cordoned, by op1" {
		t.Errorf("after a restart and a sweep: %s", got)
	}
	annotate("")
	s.offer("op3", driver)
	s.until("the third operation", func(op *topsv1.OperationStatus) bool { return op.ID == "op3" })
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v3")
}

func TestAnOperationWaitsForItsSlotAndIsPrecheckedAgain(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation = nil })
	s.turn()
	nu := s.upgrade()
	nu.Spec.Operation = s.operation("op2", driver)
	quick(nu.Spec.Operation)
	nu.Spec.Operation.Granted = false
	s.must(s.admin.Update(s.ctx, nu))
	op := s.until("its wait", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonAwaitingSlot })
	if op.PreparedTime == nil || op.Granted || op.Task != "" || s.marks() != "" || s.countEvents("Started") != 0 {
		t.Errorf("while it waits: %+v", op)
	}
	annotate := func(value string) {
		node := s.readNode()
		node.Annotations = map[string]string{"weave.works/kured-reboot-in-progress": value}
		s.must(s.admin.Update(s.ctx, node))
	}
	annotate("2030-01-01T00:00:00Z")
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Granted = true })
	op = s.until("the precheck", func(op *topsv1.OperationStatus) bool {
		return op.Granted && op.Reason == operation.ReasonPrecheckFailed
	})
	if op.Message != "kured works on the node" || s.marks() != "" {
		t.Errorf("%q, the node is %q", op.Message, s.marks())
	}
	annotate("")
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
}

// TestEveryWriterHasItsPart: fields of the NodeUpgrade with other writers are left alone.
func TestEveryWriterHasItsPart(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	nu := s.upgrade()
	nu.Status.Tasks = []topsv1.UpgradeTask{{RequestID: "r1", Name: "n_x_replace", State: topsv1.TaskWaiting}}
	nu.Status.Requests = []topsv1.UpgradeRequest{{ID: "r1", RequestTime: metav1.NewTime(s.now),
		Pod: topsv1.NamespacedRef{Namespace: "kube-system", Name: "p", UID: "p"}, DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "d", UID: "d"}}}
	nu.Status.Agent = &topsv1.AgentStatus{Version: "v1"}
	s.must(s.admin.Status().Update(s.ctx, nu, client.FieldOwner("gcu-operator")))
	want := s.upgrade().Status
	s.offer("op1", driver)
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
	got := s.upgrade()
	if diff := cmp.Diff(want.Tasks, got.Status.Tasks); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Requests, got.Status.Requests); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Agent, got.Status.Agent); diff != "" {
		t.Error(diff)
	}
	for _, entry := range got.ManagedFields {
		if entry.Manager != string(fieldOwner) {
			continue
		}
		fields := string(entry.FieldsV1.GetRawBytes())
		for _, foreign := range []string{"f:tasks\":{\"k:{\\\"requestID", "f:requests", "f:agent", "f:host", "f:spec"} {
			if strings.Contains(fields, foreign) {
				t.Errorf("it claims %s: %s", foreign, fields)
			}
		}
	}
}

// TestNothingIsDoneThatCouldNotBeStored: another client writes the NodeUpgrade just before
// the controller does.
func TestNothingIsDoneThatCouldNotBeStored(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	conflicts := 0
	s.line.before = func(what string) error {
		if strings.Contains(what, "NodeUpgrade") && conflicts < 3 {
			conflicts++
			s.change(func(nu *topsv1.NodeUpgrade) { nu.Labels = map[string]string{"n": strings.Repeat("x", conflicts)} })
		}
		return nil
	}
	for conflicts < 3 {
		written := len(s.line.writes)
		s.now = s.now.Add(1)
		result, err := s.reconcile()
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("a conflict: %+v, %v", result, err)
		}
		if more := s.line.writes[written:]; len(more) > 0 {
			t.Fatalf("although it was not stored: %q", more)
		}
	}
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
	stored := false
	for _, w := range s.line.writes {
		stored = stored || strings.HasPrefix(w, "patch status of *v1.NodeUpgrade")
		if !stored {
			t.Fatalf("before the first record: %s", w)
		}
	}
}

func TestTheOperatorsOwnPodIsNotEvicted(t *testing.T) {
	s := newStage(t, toolkit)
	s.workload("operator")
	s.workload("other")
	s.host.Runtime.RestartStopsContainers = ptr.To(true)
	s.publish(toolkit, "v2")
	s.offer("op1", toolkit)
	s.ends("Done Succeeded", "", "toolkit v2")
	var pod corev1.Pod
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "operator"}, &pod))
	if err := s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: "other"}, &pod); !apierrors.IsNotFound(err) {
		t.Errorf("the other pod is still there: %v", err)
	}
}

func TestANodeThatVanishesIsNoError(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.untilTask("driver_verify")
	s.must(s.admin.Delete(s.ctx, s.readNode()))
	for range 4 {
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if op := s.upgrade().Status.Operation; op.Phase != topsv1.OperationAborted || op.Reason != operation.ReasonNodeReplaced {
		t.Errorf("%s %s", op.Phase, op.Reason)
	}
	s.must(s.admin.Delete(s.ctx, s.upgrade()))
	if result, err := s.reconcile(); err != nil || result.RequeueAfter != 0 {
		t.Errorf("without the NodeUpgrade: %+v, %v", result, err)
	}
}
