package main

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pinning"
	"github.com/topsops/gcu-operator/pkg/message"
)

// isPinRequest reports whether a verb on a task is an undo, or the retry that ends one: the task replaces a pod and, for a
// retry, no operation runs on the node.
func isPinRequest(ctx context.Context, cl *cluster, node, verb, task string) (bool, error) {
	if verb != observed.VerbRetry || !strings.HasSuffix(task, "_replace") {
		return verb == observed.VerbUndo && strings.HasSuffix(task, "_replace"), nil
	}
	var upgrade topsv1.NodeUpgrade
	err := cl.read(ctx, "", node, &upgrade)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && !observed.HasLiveOperation(&upgrade), err
}

// requestPin requests an undo, or the retry that ends it, and waits for the result if wanted.
func requestPin(ctx context.Context, out terminal, cl *cluster, node, verb, task string, wait bool, timeout time.Duration) error {
	value, err := writePinRequest(ctx, cl, node, verb, task)
	if err != nil {
		return err
	}
	out.say("node %s: %s of %s is requested", node, verb, task)
	if !wait {
		return nil
	}
	if err := awaitAnswer(ctx, out, cl, node, value, timeout); err != nil {
		return err
	}
	out.say("node %s: %s of %s is done", node, verb, task)
	return nil
}

// writePinRequest writes the annotation that rolls a node back to the previous revision, or ends that, and
// creates the NodeUpgrade if necessary. It returns its value.
func writePinRequest(ctx context.Context, cl *cluster, node, verb, task string) (value string, err error) {
	newest, err := checkPinRequest(ctx, cl, node, task)
	if err != nil {
		return "", err
	}
	note := time.Now().UTC().Format(time.RFC3339Nano)
	value = verb + ":" + task + ":" + note
	if verb == observed.VerbUndo {
		value = observed.UndoValue(task, newest, note)
	}
	err = changeOrCreate(ctx, cl, node, func(upgrade *topsv1.NodeUpgrade) (bool, error) {
		if atWork(upgrade) == nil {
			if err := overrideIsRead(upgrade); err != nil {
				return false, err
			}
		}
		if before := upgrade.Annotations[topsv1.AnnotationTaskOverride]; !strings.HasPrefix(before, verb+":"+task+":") && awaitsResult(upgrade, before) {
			return false, refused("node %s: %q, which was requested before, is not carried out yet, and this would replace it: wait, or withdraw it (kubectl annotate nodeupgrade %s %s-)",
				node, before, node, topsv1.AnnotationTaskOverride)
		}
		metav1.SetMetaDataAnnotation(&upgrade.ObjectMeta, topsv1.AnnotationTaskOverride, value)
		return true, nil
	}, topsv1.AnnotationTaskOverride, value)
	return value, err
}

// awaitsResult reports whether a value of annotation task-override is a pin request that is not carried out yet.
func awaitsResult(upgrade *topsv1.NodeUpgrade, value string) bool {
	return slices.ContainsFunc(observed.OpenPinRequests(upgrade), func(r observed.PinRequest) bool { return r.ID == observed.OverrideTaskID(value) && !r.Begun })
}

// checkPinRequest returns the newest revision of the target of a task, or a refusal unless that is one DaemonSet that is
// upgraded behind the gate.
func checkPinRequest(ctx context.Context, cl *cluster, node, task string) (newest string, err error) {
	target := strings.TrimSuffix(strings.TrimPrefix(task, node+"_"), "_replace")
	var sets appsv1.DaemonSetList
	if err := cl.all(ctx, "", &sets); err != nil {
		return "", err
	}
	var rollouts topsv1.DaemonRolloutList
	if err := cl.all(ctx, "", &rollouts); err != nil {
		return "", err
	}
	var found []string
	gated := false
	for i := range sets.Items {
		ds := &sets.Items[i]
		if target != ds.Name && target != ds.Namespace+"."+ds.Name && target != daemonset.Component(ds) {
			continue
		}
		for k := range rollouts.Items {
			for _, t := range rollouts.Items[k].Status.Targets {
				if t.DaemonSet == ds.Namespace+"/"+ds.Name {
					found, newest = append(found, ds.Namespace+"."+ds.Name), t.Hash
					gated = meta.IsStatusConditionTrue(rollouts.Items[k].Status.Conditions, topsv1.RolloutGated)
				}
			}
		}
	}
	switch {
	case len(found) == 0:
		return "", refused("there is no operation on node %s, and %s is no component or DaemonSet that the operator upgrades", node, target)
	case len(found) > 1:
		return "", refused("%s is one of %s: name it in full", target, message.Names(found))
	case !gated:
		return "", refused("a single node can be rolled back only with the gate (the manager's flag --gate, Kubernetes 1.36): %s", pinning.RollbackAlternatives)
	}
	return newest, nil
}

// awaitAnswer waits until the manager has answered a request for a node.
func awaitAnswer(ctx context.Context, out terminal, cl *cluster, node, value string, timeout time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return await(ctx, out, timeout, cl.changes(ctx, node, &topsv1.NodeUpgradeList{}), func(ctx context.Context) (bool, string, error) {
		var upgrade topsv1.NodeUpgrade
		if err := cl.read(ctx, "", node, &upgrade); err != nil {
			return false, "", err
		}
		if upgrade.Annotations[topsv1.AnnotationTaskOverride] != value {
			return false, "", notYet("node %s: another request has replaced this one", node)
		}
		for _, t := range upgrade.Status.Tasks {
			switch {
			case t.RequestID != observed.OverrideTaskID(value):
			case t.State == topsv1.TaskDone:
				return true, "", nil
			case t.State.Final():
				return false, "", notYet("node %s: %s: %s", node, t.Reason, t.Message)
			default:
				return false, t.Reason + ": " + t.Message, nil
			}
		}
		return false, "the operator has not read it yet", nil
	})
}
