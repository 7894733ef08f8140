package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
)

// restartRequestTimeout is how long an operation for a restart may take to be requested and granted. Without a grant
// by then there may never be one: an upgrade may be paused, wait for a person, or have no strategy.
const restartRequestTimeout = 5 * time.Minute

// AwaitedRestarts returns the nodes whose container engine should be restarted before the first
// pods of a plugin start, and how long until a restart is no longer expected. They are the nodes that
// run the toolkit and on which a restart can be expected: it is in progress, or the toolkit
// is so new that the restart may not have been requested yet.
//
// There are none as soon as one node with the toolkit has the right runtime. There the plugin
// works; elsewhere it is restarted with its node's engine, as on nodes that join later. Waiting for
// all of them would leave a large fleet, which is restarted a tenth at a time, without any card.
func AwaitedRestarts(toolkit *Component, nodes *NodeIndex, now time.Time) (names []string, wait time.Duration) {
	if toolkit.DaemonSet == nil {
		return nil, 0
	}
	for i, pods := range nodes.podsByNode(toolkit.DaemonSet, toolkit.Pods) {
		host := nodes.host(i)
		available, fresh, left := sinceAvailable(pods, now)
		switch {
		case !nodes.ready[i] || !available || host.Runtime == "":
		case !host.NeedsRestart:
			return nil, 0
		case host.restart == underWay:
			names = append(names, nodes.list[i].Name)
		case host.restart == notRequested && fresh:
			names, wait = append(names, nodes.list[i].Name), retry.Sooner(wait, left)
		}
	}
	return names, wait
}

// sinceAvailable reports whether one of the pods of a node is available, and whether it has been so for
// less than restartRequestTimeout; left is the remaining time.
func sinceAvailable(pods []*corev1.Pod, now time.Time) (available, fresh bool, left time.Duration) {
	for _, pod := range pods {
		if ok, _ := daemonset.Availability(pod, 0, now); ok {
			longEnough, wait := daemonset.Availability(pod, int32(restartRequestTimeout.Seconds()), now)
			return true, !longEnough, wait
		}
	}
	return false, false, 0
}
