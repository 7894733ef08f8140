package operation

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestOtherUpgrader(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	annotated := func(key, value string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
	}
	labeled := func(key, value string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: value}}}
	}
	lease := func(holder string, renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: "node-n1"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(3600)), RenewTime: &metav1.MicroTime{Time: renewed}}}
	}
	plain := &corev1.Node{}
	for _, tc := range []struct {
		name  string
		node  *corev1.Node
		lease *coordinationv1.Lease
		want  string
	}{
		{"nobody works on a node without a sign", plain, nil, ""},
		{"kured reboots it", annotated("weave.works/kured-reboot-in-progress", "2030-01-01T00:00:00Z"), nil, "kured"},
		{"a reboot that kured asked for before is over", annotated("weave.works/kured-most-recent-reboot-needed", "2030-01-01T00:00:00Z"), nil, ""},
		{"Flatcar reboots it", annotated("flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress", "true"), nil, "the Flatcar update operator"},
		{"Flatcar does not", annotated("flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress", "false"), nil, ""},
		{"a machine config is applied", annotated("machineconfiguration.openshift.io/state", "Working"), nil, "the machine config operator"},
		{"a machine config was applied", annotated("machineconfiguration.openshift.io/state", "Done"), nil, ""},
		{"another driver is upgraded", labeled("nvidia.com/gpu-driver-upgrade-state", "pod-restart-required"), nil, "the NVIDIA GPU operator"},
		{"another driver was upgraded", labeled("nvidia.com/gpu-driver-upgrade-state", "upgrade-done"), nil, ""},
		{"another driver waits for its turn", labeled("nvidia.com/gpu-driver-upgrade-state", "upgrade-required"), nil, ""},
		{"an annotation is not a label", annotated("nvidia.com/gpu-driver-upgrade-state", "drain-required"), nil, ""},
		{"a network driver is upgraded", labeled("nvidia.com/ofed-driver-upgrade-state", "drain-required"), nil, "the NVIDIA network operator"},
		{"the node goes away", &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: toBeDeleted, Value: "1"}}}}, nil, "the cluster autoscaler"},
		{"a plan that was applied is no work", labeled("plan.upgrade.cattle.io/k3s", "abc"), nil, ""},
		{"somebody maintains it", plain, lease("node-maintenance", now.Add(-time.Minute)), "node-maintenance"},
		{"a Lease without a holder is a Lease", plain, lease("", now), "the holder of Lease medik8s-leases/node-n1"},
		{"a Lease that ran out is none", plain, lease("node-maintenance", now.Add(-2*time.Hour)), ""},
		{"a Lease without a time is none", plain, &coordinationv1.Lease{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := OtherUpgrader(tc.node, tc.lease, nil, now); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
