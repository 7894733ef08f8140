package operation

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sign is what another upgrader writes on a node while it works on it.
type sign struct {
	who string
	// key of an annotation or a label.
	key        string
	annotation bool
	// busy are the values that mean work; nil: all but idle and "".
	busy, idle []string
}

// driverUpgradeIdle are the states in which NVIDIA's upgrade controllers do nothing
// to a node: the last one waits for a person.
var driverUpgradeIdle = []string{"upgrade-done", "upgrade-required", "upgrade-failed"}

// signs are those of well-known upgraders that say clearly when they work. What says
// only that a version was applied, as the label of system-upgrade-controller does, is
// none.
var signs = []sign{
	// Its value is the time at which the reboot began; kured removes it afterwards.
	{who: "kured", key: "weave.works/kured-reboot-in-progress", annotation: true},
	{who: "the Flatcar update operator", key: "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress", annotation: true, busy: []string{"true"}},
	{who: "the machine config operator", key: "machineconfiguration.openshift.io/state", annotation: true, busy: []string{"Working", "Rebooting"}},
	{who: "the NVIDIA GPU operator", key: "nvidia.com/gpu-driver-upgrade-state", idle: driverUpgradeIdle},
	{who: "the NVIDIA network operator", key: "nvidia.com/ofed-driver-upgrade-state", idle: driverUpgradeIdle},
}

// toBeDeleted is the taint of a node that the cluster autoscaler is removing.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// leaseNamespace has the Leases with which the operators of medik8s, such as
// node-maintenance-operator, keep each other off a node.
const leaseNamespace = "medik8s-leases"

// LeaseOf is the Lease that keeps others off a node.
func LeaseOf(node string) types.NamespacedName {
	return types.NamespacedName{Namespace: leaseNamespace, Name: strings.ToLower("node-" + node)}
}

// OtherUpgrader names who else works on a node, "" nobody. lease is that of
// LeaseOf, nil when there is none.
func OtherUpgrader(node *corev1.Node, lease *coordinationv1.Lease, now time.Time) string {
	for _, s := range signs {
		value := node.Labels[s.key]
		if s.annotation {
			value = node.Annotations[s.key]
		}
		if s.matches(value) {
			return s.who
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == toBeDeleted {
			return "the cluster autoscaler"
		}
	}
	return holder(lease, now)
}

// matches reports whether a value of the key means work.
func (s sign) matches(value string) bool {
	if s.busy != nil {
		return slices.Contains(s.busy, value)
	}
	return value != "" && !slices.Contains(s.idle, value)
}

// holder is who holds a Lease, "" when nobody does or it has run out.
func holder(lease *coordinationv1.Lease, now time.Time) string {
	if lease == nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return ""
	}
	until := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	if now.After(until) {
		return ""
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "the holder of Lease " + lease.Namespace + "/" + lease.Name
	}
	return *lease.Spec.HolderIdentity
}
