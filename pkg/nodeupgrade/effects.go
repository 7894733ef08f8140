package nodeupgrade

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// effects carries out stored decisions.
type effects struct {
	cordoner  drain.Cordoner
	taints    taintWriter
	evictions *evictions
	denials   *denials
	pods      podreplace.Replacer
}

// carryOut carries out the effects in order, up to the first that fails.
func (c effects) carryOut(ctx context.Context, o *observation, all []operation.Effect) error {
	for _, e := range all {
		if err := c.effect(ctx, o, e); err != nil {
			return fmt.Errorf("carrying out %s of operation %s: %w", e.Kind, e.Operation, err)
		}
	}
	return nil
}

func (c effects) effect(ctx context.Context, o *observation, e operation.Effect) error {
	switch e.Kind {
	case operation.Cordon, operation.Uncordon:
		return c.denied(ctx, o, e, c.cordoner.CarryOut(ctx, o.upgrade.Name, e.NodeVersion, e.Operation, e.Change))
	case operation.TaintDevice:
		return c.denied(ctx, o, e, c.taints.set(ctx, o.node, e.Operation, operation.WithDriverTaint(o.node, e.Operation)))
	case operation.UntaintDevice:
		return c.denied(ctx, o, e, c.taints.set(ctx, o.node, e.Operation, operation.WithoutDriverTaint(o.node, e.Operation)))
	case operation.Evict:
		if o.policyErr != nil {
			return nil // the record already reports it
		}
		return c.evictions.evict(ctx, o.facts, o.policy, e)
	case operation.DeletePod:
		return c.deletePod(ctx, o, e)
	case operation.FencePod:
		log.FromContext(ctx).Info("Fencing Pod, its operation ends", "Pod", klog.KRef(e.Pod.Namespace, e.Pod.Name), "operation", e.Operation)
		err := c.pods.Fence(ctx, podOf(e), o.facts.Now, fmt.Sprintf("operation %s ends without replacing the pod", e.Operation))
		return c.denied(ctx, o, e, err)
	}
	return fmt.Errorf("unknown effect %s", e.Kind)
}

// podOf returns the pod of an effect, in the version that was decided on.
func podOf(e operation.Effect) *corev1.Pod {
	return podreplace.Pod(e.Pod.Namespace, e.Pod.Name, e.Pod.UID, e.Pod.ResourceVersion)
}

// deletePod deletes a pod at its recorded UID and resourceVersion. First it reads the
// DaemonSet live, which must still own the pod (by UID), be unchanged, and be OnDelete
// (invariant S9). One that is denied is no failure of the pass: the next decision knows of it.
func (c effects) deletePod(ctx context.Context, o *observation, e operation.Effect) error {
	pod := o.pod(e.Pod.UID)
	if pod == nil {
		return fmt.Errorf("pod %s/%s: %w", e.Pod.Namespace, e.Pod.Name, podreplace.ErrChanged)
	}
	owner := daemonset.Owner(pod)
	if owner == nil || o.daemonSets[owner.UID] == nil {
		return fmt.Errorf("owner of pod %s/%s: %w", e.Pod.Namespace, e.Pod.Name, podreplace.ErrChanged)
	}
	ds, unchanged, err := c.pods.Recheck(ctx, o.daemonSets[owner.UID])
	if err != nil {
		return err
	}
	if !unchanged {
		return fmt.Errorf("DaemonSet %s/%s: %w", pod.Namespace, owner.Name, podreplace.ErrChanged)
	}
	log.FromContext(ctx).Info("Deleting Pod", "Pod", klog.KObj(pod), "DaemonSet", klog.KObj(ds), "Node", o.upgrade.Name, "operation", e.Operation)
	deleted, err := c.pods.Delete(ctx, podOf(e))
	if err == nil && !deleted {
		return fmt.Errorf("pod %s/%s: %w", e.Pod.Namespace, e.Pod.Name, podreplace.ErrChanged)
	}
	return c.denied(ctx, o, e, err)
}

// denied remembers an error that is a denial of an effect on a pod or the Node: the next decision knows of it, and the pass has not failed.
// A denial that has ended is forgotten.
func (c effects) denied(ctx context.Context, o *observation, e operation.Effect, err error) error {
	object := cmp.Or(e.Pod.UID, e.NodeUID)
	if err == nil {
		c.denials.forget(o.upgrade.Name, object)
	}
	if denial.IsGoneOrChanged(err) || !podreplace.IsDeniedOrBroken(err) {
		return err
	}
	log.FromContext(ctx).Info("Write denied", "effect", e.Kind, "Pod", klog.KRef(e.Pod.Namespace, e.Pod.Name), "Node", o.upgrade.Name, "cause", err.Error())
	c.denials.add(o.upgrade.Name, object, e.Kind == operation.FencePod, err, o.facts.Now)
	return fmt.Errorf("%w: %w", podreplace.ErrChanged, err)
}
