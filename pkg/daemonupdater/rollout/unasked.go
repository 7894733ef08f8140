package rollout

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Under OTA everything is asked for, except the restart of the container runtime of a node that is
// idle: no pod but the operator's own uses a card there, and every pod is at its target. Only an
// operation can tell: it is prepared unasked (Job.OnlyIdle), looks, and ends before it touches a node
// that is in use. On such a node it is kept, looks again from time to time, and the node awaits its
// request. Once asked for, the node gets another operation, which is for nodes in use too.

// OnlyIdle reports whether an operation that a node is to get now may touch it only while it is idle.
func OnlyIdle(in *Input, node *Node) bool {
	g := groupOf(in)
	return !g.isAskedFor(node) && slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.allowsUnasked(node, &p) })
}

// isAskedFor reports whether the strategy lets some of the work on a node be done without further
// conditions.
func (g *group) isAskedFor(node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.hasWork(node, &p) && g.allows(&p) })
}

// allowsUnasked reports whether the runtime is restarted for a pod under OTA although nobody asked,
// as far as is known.
func (g *group) allowsUnasked(node *Node, pod *Pod) bool {
	return g.members[pod.Member].Restarts && g.mayBeIdle(node) && (node.Job == nil || !node.Job.InUse)
}

// mayBeIdle reports whether a restart is all that a node needs under OTA, so that it is done unasked
// if the node is idle. The operation of another group is not replaced for that.
func (g *group) mayBeIdle(node *Node) bool {
	free := node.Job == nil || node.Job.Ours && node.Job.OnlyIdle && !node.Job.Held
	return g.strategy == daemonset.OTA && node.NeedsRestart && free &&
		!slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.isOutdated(&p) })
}

// keepsOperation reports whether the node awaits a request, and the operation that looks whether it
// is still in use is kept.
func (n *fleetNode) keepsOperation() bool {
	return n.phase == phaseAwaitingRequest && n.Job != nil && n.Job.InUse && n.group.mayBeIdle(&n.Node)
}
