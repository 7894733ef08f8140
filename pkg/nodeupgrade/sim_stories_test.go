package nodeupgrade

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// story is played until its operation is over.
type story struct {
	name       string
	components []string
	tell       func(*simulation)
	// loose: what has been replaced by its end depends on the moment.
	loose bool
}

// order requests an operation with deadlines that no lag reaches.
func (w *simulation) order(id string, change func(*topsv1.NodeOperation), changed ...string) {
	nu := w.upgrade()
	nu.Spec.Operation = w.operation(id, changed...)
	nu.Spec.Operation.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 1, VerifySeconds: 1800, ProgressSeconds: 3600}
	if change != nil {
		change(nu.Spec.Operation)
	}
	w.must(w.admin.Update(w.ctx, nu, client.FieldOwner("planner")))
}

// budget refuses evictions while it does not allow them.
func (w *simulation) budget() (allow func(int32)) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "keep"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}}}
	w.must(w.admin.Create(w.ctx, b))
	return func(n int32) {
		b.Status.DisruptionsAllowed = n
		w.must(w.admin.Status().Update(w.ctx, b))
	}
}

// ended is a story that is ended at a task.
func ended(name, task string, change func(*topsv1.NodeUpgrade)) story {
	return story{name: name, components: []string{driver, plugin}, loose: true, tell: func(w *simulation) {
		w.workload("train")
		w.publish(driver, "v2")
		w.order("op1", nil, driver)
		w.at(task, func() { w.change(change) })
	}}
}

func abort(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Abort = true }

func withdraw(nu *topsv1.NodeUpgrade) { nu.Spec.Operation = nil }

var stories = []story{
	{name: "a whole operation", components: []string{driver, toolkit, plugin, exporter, "nfd"}, tell: func(w *simulation) {
		w.workload("train")
		for _, c := range []string{driver, toolkit, exporter} {
			w.publish(c, "v2")
		}
		w.order("op1", nil, driver, toolkit, exporter)
	}},
	{name: "a budget that refuses before the node is touched", components: []string{driver, plugin}, tell: func(w *simulation) {
		w.workload("train")
		w.workload("neighbor", func(p *corev1.Pod) { p.Labels = nil })
		allow := w.budget()
		w.publish(driver, "v2")
		w.order("op1", func(op *topsv1.NodeOperation) { op.Deadlines.PrecheckSeconds = 3600 }, driver)
		w.until("a refusal", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonPrecheckFailed })
		allow(1)
	}},
	{name: "a drain that is refused, and allowed later", components: []string{driver, plugin}, tell: func(w *simulation) {
		w.workload("train")
		allow := w.budget()
		allow(1)
		w.publish(driver, "v2")
		w.order("op1", nil, driver)
		w.at("driver_prepull", func() { allow(0) }) // the node agent works on it, so no process is at the drain yet
		w.until("a refusal", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonDrainBlocked })
		allow(1)
	}},
	{name: "a drain that is not allowed in time", components: []string{driver, plugin}, tell: func(w *simulation) {
		w.workload("train")
		allow := w.budget()
		allow(1)
		w.publish(driver, "v2")
		w.order("op1", func(op *topsv1.NodeOperation) {
			op.Drain = &topsv1.DrainPolicy{Scope: topsv1.DrainAccelerator, Resources: []string{"enflame.com/*"}, TimeoutSeconds: 20}
		}, driver)
		w.at("driver_prepull", func() { allow(0) }) // the node agent works on it, so no process is at the drain yet
	}},
	{name: "a cordon of somebody else", components: []string{driver, plugin}, tell: func(w *simulation) {
		w.must(w.admin.Patch(w.ctx, w.readNode(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`)), client.FieldOwner("kubectl-cordon")))
		w.foreign = true
		w.publish(driver, "v2")
		w.order("op1", nil, driver)
	}},
	ended("aborted while it is drained", "node_evict", abort),
	ended("aborted while the driver is replaced", "driver_replace", abort),
	ended("aborted while it soaks", "node_soak", abort),
	ended("withdrawn while the driver is replaced", "driver_replace", withdraw),
	ended("withdrawn while the driver is verified", "driver_verify", withdraw),
	{name: "a node kept cordoned until another operation", components: []string{driver, plugin}, tell: func(w *simulation) {
		w.publish(driver, "v2")
		w.results = map[string]topsv1.HostTaskState{"driver_verify": topsv1.HostTaskFailed}
		w.order("op1", nil, driver)
		w.untilOver()
		for range 20 {
			w.step()
			if got := w.marks(); got != "cordoned, by op1, closed for op1" {
				w.violate("S3: the node that is kept cordoned is %q", got)
			}
		}
		w.results = nil
		w.publish(driver, "v3")
		w.order("op2", nil, driver)
		w.until("the second operation", func(op *topsv1.OperationStatus) bool { return op.ID == "op2" })
	}},
	{name: "another target in the middle", components: []string{driver, plugin}, tell: func(w *simulation) {
		w.publish(driver, "v2")
		w.order("op1", nil, driver)
		w.at("driver_verify", func() {
			w.publish(driver, "v3")
			w.order("op2", nil, driver)
		})
		w.until("the second operation", func(op *topsv1.OperationStatus) bool { return op.ID == "op2" })
	}},
	{name: "a slot that comes late", components: []string{driver, plugin}, tell: func(w *simulation) {
		w.publish(driver, "v2")
		w.order("op1", func(op *topsv1.NodeOperation) { op.Granted = false }, driver)
		w.until("its wait", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonAwaitingSlot })
		node := w.readNode()
		node.Annotations = map[string]string{"weave.works/kured-reboot-in-progress": "2030-01-01T00:00:00Z"}
		w.must(w.admin.Update(w.ctx, node))
		w.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Granted = true })
		w.until("the precheck", func(op *topsv1.OperationStatus) bool {
			return op.Granted && op.Reason == operation.ReasonPrecheckFailed
		})
		node = w.readNode()
		node.Annotations = nil
		w.must(w.admin.Update(w.ctx, node))
	}},
	{name: "users of the device of another gr", components: []string{driver, plugin, exporter}, tell: func(w *simulation) {
		w.publish(driver, "v2")
		w.order("op1", func(op *topsv1.NodeOperation) { op.Targets = op.Targets[:2] }, driver)
	}},
	{name: "a runtime whose restart stops all containers", components: []string{toolkit}, tell: func(w *simulation) {
		w.workload("operator")
		w.workload("other")
		w.host.Runtime.RestartStopsContainers = ptr.To(true)
		w.publish(toolkit, "v2")
		w.order("op1", nil, toolkit)
	}},
	{name: "a NodeUpgrade that is deleted", components: []string{driver, plugin}, loose: true, tell: func(w *simulation) {
		w.publish(driver, "v2")
		w.order("op1", nil, driver)
		w.at("driver_verify", func() {
			nu := w.upgrade()
			w.must(w.admin.Delete(w.ctx, nu))
			w.must(w.admin.Create(w.ctx, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: w.node, OwnerReferences: nu.OwnerReferences}}))
			w.order("op2", nil, driver)
		})
		w.until("the second operation", func(op *topsv1.OperationStatus) bool { return op.ID == "op2" })
	}},
	{name: "a node that vanishes", components: []string{driver, plugin}, loose: true, tell: func(w *simulation) {
		w.publish(driver, "v2")
		w.order("op1", nil, driver)
		w.at("driver_verify", func() {
			node := w.readNode()
			w.must(w.admin.Delete(w.ctx, node))
			w.must(w.admin.Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node, Labels: node.Labels}}))
		})
	}},
}
