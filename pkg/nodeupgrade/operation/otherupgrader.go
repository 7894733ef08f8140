package operation

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// upgraderMark is the label or annotation that another upgrader sets on a node while it works on it.
type upgraderMark struct {
	who string
	// key of the label, or of the annotation.
	key        string
	annotation bool
	// busy are the values that mean work in progress; nil: all but idle and "".
	busy, idle []string
}

// driverUpgradeIdle are the states in which NVIDIA's upgrade controllers leave a node alone;
// upgrade-failed waits for a person.
var driverUpgradeIdle = []string{"upgrade-done", "upgrade-required", "upgrade-failed"}

// upgraderMarks of well-known upgraders that mark work in progress clearly. A marker that only says
// that a version was applied, such as the label of system-upgrade-controller, is not listed.
var upgraderMarks = []upgraderMark{
	// The value is the time at which the reboot began; kured removes it afterwards.
	{who: "kured", key: "weave.works/kured-reboot-in-progress", annotation: true},
	{who: "the Flatcar update operator", key: "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress", annotation: true, busy: []string{"true"}},
	{who: "the machine config operator", key: "machineconfiguration.openshift.io/state", annotation: true, busy: []string{"Working", "Rebooting"}},
	{who: "the NVIDIA GPU operator", key: "nvidia.com/gpu-driver-upgrade-state", idle: driverUpgradeIdle},
	{who: "the NVIDIA network operator", key: "nvidia.com/ofed-driver-upgrade-state", idle: driverUpgradeIdle},
}

// toBeDeleted is the taint that the cluster autoscaler sets on a node it is removing.
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// leaseNamespace is where medik8s operators, such as node-maintenance-operator, keep the
// Leases by which they exclude each other from a node.
const leaseNamespace = "medik8s-leases"

// LeaseOf returns the name of the Lease that excludes other upgraders from a node.
func LeaseOf(node string) types.NamespacedName {
	return types.NamespacedName{Namespace: leaseNamespace, Name: strings.ToLower("node-" + node)}
}

// OtherUpgrader names another upgrader that works on a node, "" when there is none. lease is
// the one named by LeaseOf, nil when there is none.
func OtherUpgrader(node *corev1.Node, lease *coordinationv1.Lease, seen *daemonset.StateTimes, now time.Time) string {
	for _, s := range upgraderMarks {
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
	return holder(lease, seen, now)
}

// matches reports whether a value means work in progress.
func (s upgraderMark) matches(value string) bool {
	if s.busy != nil {
		return slices.Contains(s.busy, value)
	}
	return value != "" && !slices.Contains(s.idle, value)
}

// holder returns the holder of a Lease, "" when it has none or has expired.
func holder(lease *coordinationv1.Lease, seen *daemonset.StateTimes, now time.Time) string {
	if lease == nil || lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return ""
	}
	renewed := seen.Since("lease "+string(lease.UID), lease.Spec.RenewTime.Time, now)
	until := renewed.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	if now.After(until) {
		return ""
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "the holder of Lease " + lease.Namespace + "/" + lease.Name
	}
	return *lease.Spec.HolderIdentity
}
