package nodeupgrade

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// checks is what the checks remember.
type checks struct {
	// foreign: a person wants the node cordoned.
	foreign bool
	before  *topsv1.NodeUpgrade
	history map[string]bool
	// deleted are the deletions by operation and component, and restarts of the runtime by
	// operation and attempt.
	deleted map[string]int
}

func (w *simulation) violate(format string, args ...any) { w.t.Fatalf(format, args...) }

// checkWrite checks every new version of an object against the true state.
func (w *simulation) checkWrite(object client.Object) {
	switch o := object.(type) {
	case *corev1.Node:
		w.checkNode(o)
	case *topsv1.NodeUpgrade:
		w.checkUpgrade(o)
		w.before = o
	}
}

// checkNode checks that no cordon of a person goes (S4), and that no mark is put on the node
// but by the operation that has it (S3, S6).
func (w *simulation) checkNode(node *corev1.Node) {
	if w.foreign && !node.Spec.Unschedulable {
		w.violate("S4: the cordon of a person is gone")
	}
	op := w.live()
	for _, id := range []string{node.Annotations[topsv1.AnnotationCordonedBy], operation.TaintedFor(node)} {
		if id != "" && op != nil && id == op.ID && !op.Granted {
			w.violate("operation %s marks the node without a slot", id)
		}
	}
}

// live returns the stored operation, nil for none.
func (w *simulation) live() *topsv1.OperationStatus {
	if nu := simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: "NodeUpgrade", Name: w.node}); nu != nil {
		return nu.Status.Operation
	}
	return nil
}

// checkUpgrade checks a record against the one before.
func (w *simulation) checkUpgrade(nu *topsv1.NodeUpgrade) {
	now := nu.Status.Operation
	var before *topsv1.OperationStatus
	if w.before != nil && w.before.UID == nu.UID {
		before = w.before.Status.Operation
	}
	if now == nil {
		return
	}
	if before == nil || before.ID != now.ID || before.Phase != now.Phase || before.Task != now.Task || before.Reason != now.Reason {
		w.say("%s is %s task %s: %s %s", now.ID, now.Phase, now.Task, now.Reason, now.Message)
	}
	if w.awaited != "" && now.Task == w.awaited {
		w.awaited = ""
	}
	switch {
	case before != nil && before.ID != now.ID && !operation.Over(before) && (!before.Held || now.CordonedBy != operation.CordonMark(before)):
		w.violate("S6: operation %s begins before %s is over", now.ID, before.ID)
	case before != nil && before.ID == now.ID && operation.Over(before) && !now.Phase.Final():
		w.violate("S6: operation %s begins again", now.ID)
	case now.Touched && !now.Granted:
		w.violate("operation %s touched the node without a slot", now.ID)
	case now.Held && now.Phase != topsv1.OperationFailed && now.Phase != topsv1.OperationQuarantined && now.CordonedBy == "":
		w.violate("S3: the node is held after %s", now.Phase)
	}
	seen := map[string]bool{}
	for _, r := range nu.Status.History {
		if seen[r.ID] {
			w.violate("S6: operation %s ended twice", r.ID)
		}
		seen[r.ID] = true
	}
	for _, task := range now.Tasks {
		if strings.HasSuffix(task.Name, "_"+upgradeplan.ActionRestartRuntime) && task.Attempts > 1 {
			w.violate("S11: %s asks for the restart of the runtime %d times", now.ID, task.Attempts)
		}
	}
	if now.Phase == topsv1.OperationDone && (before == nil || before.Phase != now.Phase) {
		w.checkDone(nu)
	}
}

// checkDone checks S10: every target is at its revision, and Ready.
func (w *simulation) checkDone(nu *topsv1.NodeUpgrade) {
	for _, target := range nu.Spec.Operation.Targets {
		good := false
		for _, pod := range w.podsOf(target.Component) {
			good = good || pod.DeletionTimestamp == nil && isReady(&pod) && pod.Labels[appsv1.ControllerRevisionHashLabelKey] == target.Revision
		}
		if !good {
			w.violate("S10: %s is done, and %s is not at %s", nu.Status.Operation.ID, target.Component, target.Revision)
		}
	}
}

// checkDeletion checks a deletion that took effect: its preconditions (S5), whose pod it is (S9),
// that the stored operation works and has named the pod (S6), once per component (S11), and that
// the node was empty and closed when it is the driver's (S8).
func (w *simulation) checkDeletion(pod *corev1.Pod, options *client.DeleteOptions) {
	w.say("Pod %s is deleted", pod.Name)
	if p := options.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
		w.violate("S5: %s is deleted without preconditions", pod.Name)
	}
	if ds := w.ownerOf(pod); ds == nil || ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		w.violate("S9: %s is deleted, and belongs to %v", pod.Name, pod.OwnerReferences)
	}
	op, component := w.live(), w.componentOf(pod)
	works := op != nil && !op.Phase.Final() && op.Granted
	named := false
	if works {
		for _, task := range op.Tasks {
			isIt := func(n topsv1.NamedPod) bool { return n.UID == pod.UID && n.ResourceVersion == pod.ResourceVersion }
			named = named || task.Pod != nil && isIt(*task.Pod) || slices.ContainsFunc(task.Users, isIt)
		}
	}
	if !works || !named {
		w.violate("S6: %s is deleted, and the operation is %+v", pod.Name, op)
	}
	key := op.ID + " " + component
	if w.deleted[key]++; w.deleted[key] > 1 && component != plugin && component != exporter {
		w.violate("S11: the pod of %s is deleted %d times by %s", component, w.deleted[key], op.ID)
	}
	if component == driver {
		w.checkEmpty(op.ID)
	}
}

// checkEmpty checks that the node is cordoned and closed for an operation, and that nothing uses
// its device.
func (w *simulation) checkEmpty(id string) {
	node := w.readNode()
	if !node.Spec.Unschedulable || operation.TaintedFor(node) != id {
		w.violate("S8: the driver goes while the node is %q", w.marks())
	}
	for _, pod := range simapi.All[*corev1.Pod](w.api, "Pod") {
		if app := pod.Labels["app"]; pod.Spec.NodeName == w.node && (app == plugin || app == exporter || app == "work") {
			w.violate("S8: the driver goes while %s is there", pod.Name)
		}
	}
}

// checkEviction checks that an eviction spares the operator and the pods of DaemonSets (S9).
func (w *simulation) checkEviction(pod *corev1.Pod) {
	w.say("Pod %s is evicted", pod.Name)
	if pod.Name == "operator" || w.componentOf(pod) != "" {
		w.violate("S9: %s is evicted", pod.Name)
	}
}

// checkEnd checks that nothing of an operation is left on the node unless it is held (S3, L4).
func (w *simulation) checkEnd() {
	nu := w.upgrade()
	op := nu.Status.Operation
	if marks := w.marks(); !op.Held && marks != "" && (!w.foreign || marks != "cordoned") {
		w.violate("S3: after %s the node is %q", op.Phase, marks)
	}
	for _, r := range nu.Status.History {
		w.run.Reached[fmt.Sprint(r.Phase)]++
	}
}
