package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// LeftToAdministrator returns what an administrator has to do before containers of a node get cards,
// in the words of the node agent if an operation requested the restart; "" if no restart is needed, or if
// the agent restarts the runtime itself. An agent that does not report whether it does is known only by the result of
// such an operation.
func LeftToAdministrator(u *topsv1.NodeUpgrade) string {
	if !u.Status.Host.NeedsRestart() {
		return ""
	}
	reported := ""
	for _, r := range slices.Backward(u.Status.History) {
		if covers(&r, upgradeplan.TargetNode, upgradeplan.ActionRestartRuntime) {
			if r.Reason == ReasonLeftToAdministrator {
				reported = r.Message
			}
			break
		}
	}
	agent := u.Status.Agent
	switch {
	case agent == nil || agent.RestartsRuntime == nil:
		return reported
	case *agent.RestartsRuntime:
		return ""
	}
	engine, stops := u.Status.Host.Runtime, ""
	then := "; then pods of device plugin, exporter and gfd that started before are replaced: they have no cards"
	switch known := engine.RestartStopsContainers; {
	case known == nil:
		stops = " (this may stop all containers of the node)"
	case *known:
		stops, then = " (this stops all containers of the node)", ""
	}
	return cmp.Or(reported, fmt.Sprintf("the default runtime of %s on node %s is %q: restart it on the node%s, for example with: systemctl restart %s; the node agent leaves this to the administrator (--restart-runtime=false)%s",
		engine.Engine, u.Name, engine.Default, stops, engine.Engine, then))
}

// Unverified reports whether the last operation that was to replace the pod of a component, and
// touched the node, ended before its work was verified, or because the verification failed: a person may have returned
// the node to service. An operation whose restart was left to the administrator is done when the runtime is
// restarted. Operations for a former DaemonSet of the component do not count.
func Unverified(u *topsv1.NodeUpgrade, component string, set *appsv1.DaemonSet) bool {
	if component == "" || !slices.ContainsFunc(u.Status.History, endedUnverified) {
		return false
	}
	last := lastEvidence(u, component, set)
	return last != nil && endedUnverified(*last)
}

// HasEvidence reports whether the history of a node has an operation that shows whether the work on a component is verified.
func HasEvidence(u *topsv1.NodeUpgrade, component string, set *appsv1.DaemonSet) bool {
	return lastEvidence(u, component, set) != nil
}

// lastEvidence returns the end of the last operation that was to replace the pod of a component, and touched the node or was done;
// nil if there is none for this DaemonSet.
func lastEvidence(u *topsv1.NodeUpgrade, component string, set *appsv1.DaemonSet) *topsv1.OperationRecord {
	for _, r := range slices.Backward(u.Status.History) {
		switch {
		case isForFormer(u, &r, component, set):
			return nil
		case covers(&r, component, upgradeplan.ActionReplace) && isEvidence(r):
			return &r
		}
	}
	return nil
}

// HasNoCards reports whether a pod that uses the device runs but cannot have cards, because it started before the
// default runtime of the container engine was right. That happens when a person restarts the engine; an
// operation replaces the pods of its group itself. If the agent does not report since when the default is right,
// only a device plugin is known to have no cards: one that started before the engine, on a node that offers
// none of its cards.
func HasNoCards(u *topsv1.NodeUpgrade, node *corev1.Node, component string, pod *corev1.Pod, now time.Time) bool {
	if !CardsSince(u).IsZero() && usesDevice(component) && isOlder(pod, u.Status.Host.Runtime.Engine, defaultSince(u.Status.Host, now)) {
		return true
	}
	return OffersNone(u, node, component, &pod.Spec) && StartedWithoutCards(u, component, pod)
}

// StartedWithoutCards reports whether a pod that uses the device started before the container engine: it has
// no cards if the device plugin of its node has none.
func StartedWithoutCards(u *topsv1.NodeUpgrade, component string, pod *corev1.Pod) bool {
	return usesDevice(component) && isOlder(pod, u.Status.Host.Runtime.Engine, u.Status.Host.Runtime.StartTime)
}

func usesDevice(component string) bool {
	return OffersCards(component) || component == upgradeplan.TargetExporter || component == upgradeplan.TargetGFD
}

// OffersCards reports whether a component is a device plugin. Facts have the newest revision of each, whichever gr
// deploys it.
func OffersCards(component string) bool {
	return component == upgradeplan.TargetDevicePlugin || component == upgradeplan.TargetGcusharePlugin
}

// defaultSince returns when the default runtime of a node last changed, nil if that is unknown or in the
// future, by the clock of the report or by ours: every new pod would be older.
func defaultSince(host *topsv1.HostReport, now time.Time) *metav1.Time {
	since := host.Runtime.DefaultSince
	if since == nil || since.After(host.Time.Time) || since.After(now) {
		return nil
	}
	return since
}

// OffersNone reports whether a component, with these pods, is the device plugin of a node that offers none of its
// cards although new containers get them.
func OffersNone(u *topsv1.NodeUpgrade, node *corev1.Node, component string, pods *corev1.PodSpec) bool {
	return OffersCards(component) && !CardsSince(u).IsZero() && !offers(node, daemonset.FurtherResources(pods))
}

// CardsSince returns since when new containers of a node get its cards, by the clock of the node; zero if
// they do not, or it is not known.
func CardsSince(u *topsv1.NodeUpgrade) time.Time {
	host := u.Status.Host
	if host == nil || ptr.Deref(host.Devices, 0) == 0 || host.Runtime == nil || host.Runtime.Default != topsv1.DefaultRuntime || host.Runtime.StartTime == nil {
		return time.Time{}
	}
	return host.Runtime.StartTime.Time
}

// isOlder reports whether a pod started before a time, nil for never, as far as its runtime is concerned. A
// container of docker that started later has the default runtime of then; containerd keeps that of the
// sandbox, which is recreated when the node has booted. The kubelet notices a sandbox up to some seconds late: if
// all its containers are older, so is the sandbox, unless it is to be made again.
func isOlder(pod *corev1.Pod, engine string, than *metav1.Time) bool {
	containers := pod.Status.ContainerStatuses
	older := len(containers) > 0 && !slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
		return c.State.Running == nil || c.State.Running.StartedAt.IsZero() || !c.State.Running.StartedAt.Before(than)
	})
	if engine == "docker" {
		return older
	}
	return pod.Status.StartTime.Before(than) && // not if it has not started
		!slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReadyToStartContainers && (c.Status != corev1.ConditionTrue || !older && !c.LastTransitionTime.Before(than))
		})
}

// offers reports whether a node offers any card, also under further names.
func offers(node *corev1.Node, further []corev1.ResourceName) bool {
	policy, _ := eviction.PolicyOf(nil) // the default is valid
	policy = policy.WithResources(further)
	for name, quantity := range node.Status.Allocatable {
		if policy.Accelerates(string(name)) && !quantity.IsZero() {
			return true
		}
	}
	return false
}

// OffersOthers reports whether a node started or stopped offering an extended resource.
func OffersOthers(before, after *corev1.Node) bool {
	misses := func(a, b *corev1.Node) bool {
		for name, quantity := range a.Status.Allocatable {
			other := b.Status.Allocatable[name]
			if strings.Contains(string(name), "/") && !quantity.IsZero() && other.IsZero() {
				return true
			}
		}
		return false
	}
	return misses(before, after) || misses(after, before)
}

// isForFormer reports whether an ended operation was for a DaemonSet of a component that is gone: by the targets of the operation while
// they are known, otherwise by when this one was created, by another clock than that of the end: if that was behind, an operation for
// this DaemonSet, soon after its creation, counts as one for a former DaemonSet.
func isForFormer(u *topsv1.NodeUpgrade, r *topsv1.OperationRecord, component string, set *appsv1.DaemonSet) bool {
	if asked := u.Spec.Operation; asked != nil && asked.ID == r.ID {
		for i := range asked.Targets {
			if t := &asked.Targets[i]; t.Component == component {
				return !slices.ContainsFunc(t.All(), func(of topsv1.DaemonSetRevision) bool { return of.DaemonSet.UID == set.UID })
			}
		}
	}
	return set.CreationTimestamp.After(r.EndTime.Time)
}

func endedUnverified(r topsv1.OperationRecord) bool {
	return r.Phase != topsv1.OperationDone && r.Touched && r.Reason != ReasonLeftToAdministrator
}

// covers reports whether the job of an ended operation had a task.
func covers(r *topsv1.OperationRecord, target, action string) bool {
	return slices.ContainsFunc(tasksOf(r), func(name string) bool {
		t, err := upgradeplan.ParseTask(name)
		return err == nil && t.Target == target && t.Action == action
	})
}
