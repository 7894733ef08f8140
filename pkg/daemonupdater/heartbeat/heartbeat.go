// Package heartbeat reads when the kubelets of nodes last renewed their Leases. A missing renewal is the
// earliest sign that a node has died: its Ready condition follows only after the grace period of the
// control plane. Leases are read one by one and only when needed: a watch would receive a
// thousand renewals a second from 10 000 nodes.
package heartbeat

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get

// Refresh reads the Leases of the nodes on probation that other nodes wait for, once per rollout.HeartbeatPoll.
func Refresh(ctx context.Context, live client.Reader, f *pass.Fleet, now time.Time) {
	for node, at := range renewals(ctx, live, f.HeartbeatsDue(now)) {
		f.Renew(node, at, now)
	}
}

// renewals returns when the Leases of the named nodes were last renewed, by the clocks of their
// kubelets. Nodes without a Lease, and those whose Lease could not be read, are left out. Errors are only logged: they
// delay nothing but the nodes that wait.
func renewals(ctx context.Context, live client.Reader, nodes []string) map[string]time.Time {
	var mu sync.Mutex
	renewed := make(map[string]time.Time, len(nodes))
	var failed error
	workqueue.ParallelizeUntil(ctx, access.Parallelism, len(nodes), func(i int) {
		var lease coordinationv1.Lease
		err := live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: nodes[i]}, &lease)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			failed = err
		case err == nil && lease.Spec.RenewTime != nil:
			renewed[nodes[i]] = lease.Spec.RenewTime.Time
		}
	})
	if failed != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(failed, "Reading Leases of nodes failed; still waiting for the nodes on probation")
	}
	return renewed
}
