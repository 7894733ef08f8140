package gating

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Facts are what a decision about a pod at the gate depends on besides the pod.
type Facts struct {
	// Uncontrolled: nothing is gated, because the DaemonSet is not upgraded by the operator.
	Uncontrolled bool
	// GetsTarget: the node has a slot, under which it gets the target of the DaemonSet.
	GetsTarget bool
	// Pin is the hash of the revision that the node is pinned to, "" for none.
	Pin string
	// Target is the hash of the newest revision of the DaemonSet, "" if it is not known.
	Target string
	// Hashes of revisions, "" for none: Had, with which the node was last ready; Good, the last known good one; Settled,
	// the settled one; Common, the one that most nodes have besides the target.
	Had, Good, Settled, Common string
	// Revisions of the DaemonSet.
	Revisions []*appsv1.ControllerRevision
}

// Action is what to do about a pod at the gate.
type Action struct {
	Waiting
	// Restore is the pod to create in its place, nil for none.
	Restore *corev1.Pod
	// Release: remove the gate.
	Release bool
	// Why, in a few words.
	Why string
}

// Decide decides about a pod at the gate.
func Decide(w Waiting, f *Facts) Action {
	hash := daemonset.RevisionHash(w.Pod)
	switch {
	case f.Uncontrolled:
		return Action{Waiting: w, Release: true, Why: "the DaemonSet is not upgraded by the operator"}
	case f.Pin != "" && hash != f.Pin:
		return backTo(w, f)
	case f.Pin != "":
		return Action{Waiting: w, Release: true, Why: "the node is pinned to the revision"}
	case f.GetsTarget && hash == f.Target:
		return Action{Waiting: w, Release: true, Why: "the node is being upgraded"}
	case hash == f.Settled:
		return Action{Waiting: w, Release: true, Why: "every node has the revision"}
	}
	if w.isClosed() {
		return Action{Waiting: w, Why: "no pod of the DaemonSet is created on the node for now"}
	}
	for _, before := range []struct{ hash, why string }{
		{f.Had, "the node had the revision"}, {f.Good, "the revision is the last known good one"}, {f.Common, "most nodes have the revision"},
	} {
		if before.hash == hash {
			return Action{Waiting: w, Release: true, Why: before.why}
		}
		if pod := restored(w, f.Revisions, before.hash); pod != nil {
			return Action{Waiting: w, Restore: pod, Why: before.why}
		}
	}
	return Action{Waiting: w, Release: true, Why: "there is no earlier revision for the node"}
}

// backTo restores the revision that a node is pinned to, and keeps the pod of another revision at the gate. If the
// pinned revision no longer exists, the pod waits until the pin ends.
func backTo(w Waiting, f *Facts) Action {
	if w.isClosed() {
		return Action{Waiting: w, Why: "no pod of the DaemonSet is created on the node for now"}
	}
	return Action{Waiting: w, Restore: restored(w, f.Revisions, f.Pin), Why: "the node is pinned to the revision"}
}

// restored returns the pod of a revision for the node of a pod at the gate, nil if there is no such
// revision, or its pod could not run there.
func restored(w Waiting, revisions []*appsv1.ControllerRevision, hash string) *corev1.Pod {
	then := earlier(w.DaemonSet, revisions, hash)
	if then == nil || !daemonset.ShouldRun(then, w.Node).Create {
		return nil
	}
	return podOf(w, &then.Spec.Template, hash)
}

// IsKept reports whether pods of a revision of a DaemonSet can be restored.
func IsKept(ds *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision, hash string) bool {
	return earlier(ds, revisions, hash) != nil
}

// earlier returns a DaemonSet with the template of a revision, nil if there is no such revision, or its
// pods cannot be created.
func earlier(ds *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision, hash string) *appsv1.DaemonSet {
	i := slices.IndexFunc(revisions, func(r *appsv1.ControllerRevision) bool {
		return hash != "" && daemonset.RevisionHash(r) == hash && metav1.IsControlledBy(r, ds)
	})
	if i < 0 {
		return nil
	}
	template, err := daemonset.TemplateOf(revisions[i])
	if err != nil {
		return nil
	}
	then := *ds
	then.Spec.Template = *template
	if !IsGateable(&then) || len(template.Spec.SchedulingGates) > 0 {
		return nil
	}
	return &then
}

// IsGateable reports whether the pods of a DaemonSet may be gated: the operator must be able to create them, and
// admission allows it only pods with the accounts of components.
func IsGateable(ds *appsv1.DaemonSet) bool {
	return ds.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType && slices.Contains(accounts, ds.Spec.Template.Spec.ServiceAccountName)
}

// accounts are the ServiceAccounts with which config/admission/manager.yaml allows the operator to create pods.
var accounts = []string{"", "default", "nfd-service-account", "gcushare-device-plugin"}

// Settled returns the settled revision of each DaemonSet: its target once every node has had it, "" before. A DaemonSet
// that had no target before is new: its target is settled unless a node has another revision.
func Settled(before, targetsBefore, targets []topsv1.RevisionTarget, everywhere, behind bool) []topsv1.RevisionTarget {
	settled := slices.Clone(targets)
	for i, target := range targets {
		isNew := !slices.ContainsFunc(targetsBefore, func(b topsv1.RevisionTarget) bool { return b.DaemonSet == target.DaemonSet })
		was := slices.Contains(before, target)
		if !everywhere && (behind || !isNew && !was) {
			settled[i].Hash = ""
		}
	}
	return settled
}
