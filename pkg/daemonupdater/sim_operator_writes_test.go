package daemonupdater

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/simapi"
)

// What the controller of NodeUpgrades writes, each checked against the true state, the stored
// record, and what its pass read.

// Status is the status subresource.
func (c *simOperatorClient) Status() client.SubResourceWriter { return &simOperatorStatus{c: c} }

type simOperatorStatus struct {
	client.SubResourceWriter
	c *simOperatorClient
}

// Patch stores a record, or fences a pod.
func (s *simOperatorStatus) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	validation := (&client.SubResourcePatchOptions{}).ApplyOptions(opts).FieldValidation
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	key := simapi.KeyOf(object)
	return s.c.asks("patch", key, func(j *simJob) error {
		w := s.c.m.w
		before := w.api.Objects[key]
		if !strings.Contains(string(data), `"resourceVersion"`) {
			w.violate("S5: the status of %s is patched for %s without a precondition", key, j.node)
		}
		if err := w.api.Validated(validation, func() error { return w.api.Patch(object, patch.Type(), data, simapi.Status, "") }); err != nil {
			return err
		}
		w.checkPatch(before, w.api.Objects[key])
		if u, ok := w.api.Objects[key].(*topsv1.NodeUpgrade); ok {
			w.checkDone(j, before.(*topsv1.NodeUpgrade).Status.Operation, u)
			j.upgrade = u
		}
		return nil
	})
}

// Patch marks a node, or takes a mark away.
func (c *simOperatorClient) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	manager := (&client.PatchOptions{}).ApplyOptions(opts).FieldManager
	return c.asks("patch", simapi.KeyOf(object), func(j *simJob) error {
		w, key := c.m.w, simapi.KeyOf(object)
		if !strings.Contains(string(data), `"resourceVersion"`) {
			w.violate("S5: %s is patched without a precondition", key)
		}
		before := simapi.Get[*corev1.Node](w.api, key)
		was := j.upgrade != nil && j.upgrade.Status.Operation != nil && w.opAvailable(j.upgrade.Status.Operation.ID, key.Name)
		if err := w.api.Patch(object, patch.Type(), data, simapi.Main, manager); err != nil {
			return err
		}
		w.checkMarks(j, before, simapi.Get[*corev1.Node](w.api, key), was)
		return nil
	})
}

// checkMarks checks a change of a node by an operation or by the sweep; was is whether the node
// was available to the group of the operation.
func (w *simWorld) checkMarks(j *simJob, before, now *corev1.Node, was bool) {
	w.say("node %s is marked for %v, it was for %v", now.Name, simMarks(now), simMarks(before))
	for _, id := range slices.Concat(simNewMarks(before, now), simNewMarks(now, before)) {
		if op := w.ops.known[id]; op == nil || !op.granted {
			w.violate("ledger: %s is marked for %s, which has no slot", now.Name, id)
		}
	}
	if others := len(now.Spec.Taints) - len(before.Spec.Taints); others > 1 || others < -1 {
		w.violate("S9: %s lost taints of others", now.Name)
	}
	cordoned := now.Annotations[topsv1.AnnotationCordonedBy]
	for _, id := range simNewMarks(before, now) {
		at := simAtWork(simapi.Get[*topsv1.NodeUpgrade](w.api, simapi.Key{Kind: simUpgrades, Name: now.Name}))
		if at != "" && at != id && id != cordoned {
			w.violate("S6: the device of %s is closed for %s while %s is at work", now.Name, id, at)
		}
	}
	if cordoned != "" && cordoned != before.Annotations[topsv1.AnnotationCordonedBy] && was && !w.ops.known[cordoned].ended { // else it is a late writer's, see checkStray
		w.opDown(cordoned, j.node)
	}
}

// Delete deletes a pod.
func (c *simOperatorClient) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	key := simapi.KeyOf(object)
	return c.asks("delete", key, func(j *simJob) error {
		w := c.m.w
		pod, op := simapi.Get[*corev1.Pod](w.api, key), j.upgrade.Status.Operation
		if p := options.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
			w.violate("S5: %s is deleted for %s without preconditions", key, op.ID)
		}
		was := pod != nil && w.opAvailable(op.ID, j.node)
		effective, err := w.api.Delete(key, simPreconditions(options))
		if err != nil || !effective {
			return err
		}
		w.say("%s deletes %s for %s", c.m.name, pod.Name, op.ID)
		w.checkDeletedByOperation(j, pod)
		w.opTook(op.ID, j.node, pod, was)
		return nil
	})
}

// checkDeletedByOperation checks one deletion by an operation: the stored record names the pod, and
// the true state and what the pass saw of the node allow it. A restored backup may have taken the
// operation back.
func (w *simWorld) checkDeletedByOperation(j *simJob, pod *corev1.Pod) {
	op, wanted := j.upgrade.Status.Operation, j.upgrade.Spec.Operation
	h := w.host(j.node)
	stored, _ := w.stored(simapi.Key{Kind: simUpgrades, Name: j.node}).(*topsv1.NodeUpgrade) // older CRDs may hide that it was granted
	switch known := w.ops.known[op.ID]; {
	case known == nil || !known.granted:
		w.violate("ledger: pod %s is deleted for %s, which has no slot", pod.Name, op.ID)
	case !h.machine.excused && simAtWork(stored) != op.ID:
		w.violate("S5: pod %s is deleted for %s, which is over", pod.Name, op.ID)
	case !h.machine.excused && !simNames(stored.Status.Operation, pod):
		w.violate("S6: pod %s is deleted for %s, whose record does not name it", pod.Name, op.ID)
	}
	if j.seen == nil || !simNodeReady(j.seen) {
		w.violate("S7: pod %s is deleted on node %s, which the pass saw offline", pod.Name, j.node)
	}
	owner := simOwner(pod)
	ds := j.sets[owner.UID]
	if ds == nil || ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		w.violate("S9: pod %s is deleted, and its DaemonSet was not read to be OnDelete", pod.Name)
		return
	}
	component := ds.Labels[topsv1.LabelComponent]
	w.ops.known[op.ID].tookDriver(component)
	target := wanted != nil && slices.ContainsFunc(wanted.Targets, func(t topsv1.OperationTarget) bool { return t.Component == component })
	if !target && !simMachineOf.Uses(component) {
		w.violate("S9: pod %s of component %q is deleted for %s, which is not about it", pod.Name, component, op.ID)
	}
	if component != upgradeplan.TargetDriver {
		return
	}
	w.checkDisturbed(h, "the driver goes", w.left(h, false), op.ID)
	for _, other := range w.setPods() {
		ds := simapi.Get[*appsv1.DaemonSet](w.api, simapi.Named(simSets, other.Namespace, simOwner(other).Name))
		if other.Spec.NodeName == j.node && ds != nil && metav1.IsControlledBy(other, ds) && simMachineOf.Uses(ds.Labels[topsv1.LabelComponent]) && !h.machine.excused {
			w.violate("S8: the driver of %s goes while %s uses the device", j.node, other.Name)
		}
	}
}

// simNames reports whether the record of an operation names a pod in this version.
func simNames(op *topsv1.OperationStatus, pod *corev1.Pod) bool {
	is := func(n topsv1.NamedPod) bool { return n.UID == pod.UID && n.ResourceVersion == pod.ResourceVersion }
	return slices.ContainsFunc(op.Tasks, func(t topsv1.OperationTask) bool {
		return t.Pod != nil && is(*t.Pod) || slices.ContainsFunc(t.Users, is)
	})
}

// Evict evicts a pod.
func (c *simOperatorClient) Evict(_ context.Context, request *policyv1.Eviction) error {
	key, verb := simapi.Named(simPods, request.Namespace, request.Name), "evict"
	if len(request.DeleteOptions.DryRun) > 0 {
		verb = simDryRun
	}
	return c.asks(verb, key, func(j *simJob) error {
		pod := simapi.Get[*corev1.Pod](c.m.w.api, key)
		if err := c.m.w.api.Evict(request); err != nil || verb == simDryRun {
			return err
		}
		c.m.w.checkEvicted(j, pod)
		return nil
	})
}

// checkEvicted checks one eviction.
func (w *simWorld) checkEvicted(j *simJob, pod *corev1.Pod) {
	op := j.upgrade.Status.Operation
	if known := w.ops.known[op.ID]; known == nil || !known.granted {
		w.violate("ledger: pod %s is evicted for %s, which has no slot", pod.Name, op.ID)
	}
	if pod.Namespace != simUsers || pod.Spec.NodeName != j.node {
		w.violate("S9: pod %s is evicted from %s for %s", pod.Name, j.node, op.ID)
	}
	if j.seen == nil || !j.seen.Spec.Unschedulable {
		w.violate("S9: pods are evicted from %s, which is not cordoned", j.node)
	}
	if !simUsesCards(pod) && !op.DrainAll {
		w.violate("S9: pod %s, which uses no card, is evicted for %s", pod.Name, op.ID)
	}
	w.checkWithoutRequest(w.host(j.node), j.upgrade.Spec.Operation)
}

// checkDone is S10: what a completed operation replaced is at its target, available and
// validated, as far as the pass could see.
func (w *simWorld) checkDone(j *simJob, before *topsv1.OperationStatus, u *topsv1.NodeUpgrade) {
	op, wanted := u.Status.Operation, u.Spec.Operation
	if op == nil || op.Outcome != topsv1.OperationDone || wanted == nil || wanted.ID != op.ID || before != nil && before.ID == op.ID && before.Outcome == op.Outcome {
		return
	}
	h := w.host(j.node)
	for _, t := range wanted.Targets {
		var seen *corev1.Pod
		for _, pod := range j.pods {
			if owner := simOwner(pod); owner != nil && owner.UID == t.DaemonSet.UID {
				seen = simCounting(seen, pod)
			}
		}
		pod := w.podOn(simapi.Named(simSets, t.DaemonSet.Namespace, t.DaemonSet.Name), j.node)
		switch {
		case seen == nil || daemonset.RevisionHash(seen) != t.Revision || seen.DeletionTimestamp != nil || !simPodReady(seen):
			w.violate("S10: %s is done on %s, and the pass saw %s otherwise", op.ID, j.node, t.Component)
		case t.Component == upgradeplan.TargetDriver && h.machine.driver == "" && pod != nil && pod.UID == seen.UID:
			w.violate("S10: %s is done on %s, and no driver is loaded", op.ID, j.node)
		}
	}
}
