package rollout

import (
	"slices"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// group is what the facts of a node depend on besides the node.
type group struct {
	strategy  daemonset.Strategy
	members   []Member
	policy    Policy
	deadlines Deadlines
}

func groupOf(in *Input) group {
	return group{strategy: in.Settings.Strategy, members: in.Members, policy: in.Policy, deadlines: in.Deadlines}
}

// ToReplace reports whether a pod of a node is outdated and may be replaced under the given
// input.
func ToReplace(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return g.toReplace(node, pod)
}

// toReplace reports whether a pod of a node is outdated and may be replaced.
func (g *group) toReplace(node *Node, pod *Pod) bool {
	return pod.NoSuccessor == "" && g.wants(node, pod)
}

// wants reports whether an outdated pod would be replaced, if it had a successor.
func (g *group) wants(node *Node, pod *Pod) bool {
	return g.isOutdated(pod) && !node.LeftOut && !g.members[pod.Member].LeftOut && g.allows(pod)
}

// isOutdated reports whether the pod exists, is not terminating, and is not at its target, which
// is known.
func (g *group) isOutdated(pod *Pod) bool {
	target := g.members[pod.Member].Target
	return !pod.isAbsent() && target != "" && pod.Revision != target
}

// allows reports whether the strategy replaces an outdated pod: AdvancedRollingUpdate always, OTA
// only if a request on the node names this very pod, and is for its target unless the node was
// started before the target changed.
func (g *group) allows(pod *Pod) bool {
	if g.strategy == daemonset.OTA {
		return pod.Request != nil && pod.Request.PodUID == pod.UID && (pod.Request.Running || g.isAsked(pod))
	}
	return g.strategy == daemonset.AdvancedRollingUpdate
}

// isAsked reports whether there is a request for the target of a pod.
func (g *group) isAsked(pod *Pod) bool {
	return pod.Request != nil && pod.Request.isFor(g.members[pod.Member].Target)
}

// needsOperation reports whether a pod has to be replaced by an operation.
func (g *group) needsOperation(node *Node, pod *Pod) bool {
	return g.members[pod.Member].Heavy && g.toReplace(node, pod)
}

// agentLacks returns what the agent of a node is not capable of and the operation that the node
// needs asks of it, "" if nothing. An operation for a node that is kept cordoned is for all heavy
// members.
func (g *group) agentLacks(node *Node) string {
	for i := range node.Pods {
		member := &g.members[node.Pods[i].Member]
		if !g.needsOperation(node, &node.Pods[i]) && (!member.Heavy || !node.Job.isHeld()) {
			continue
		}
		for _, need := range member.Needs {
			if !slices.Contains(node.Agent.Capabilities, need) {
				return need
			}
		}
	}
	return ""
}

// isMoving reports whether a pod is on its way: missing, terminating, or at its
// target and not available.
func (g *group) isMoving(pod *Pod) bool {
	return pod.isAbsent() || (!g.isOutdated(pod) && !pod.Available)
}

// keyOf returns the key of the member that a pod belongs to.
func (g *group) keyOf(pod *Pod) string { return g.members[pod.Member].Key }

// targetsOf returns the targets of members, of all when none are named.
func (g *group) targetsOf(keys []string) []Target {
	var targets []Target
	for _, m := range g.members {
		if len(keys) == 0 || slices.Contains(keys, m.Key) {
			targets = append(targets, Target{m.Key, m.Target})
		}
	}
	return targets
}

// haveTargets reports whether pods are still brought to all of these revisions.
func (g *group) haveTargets(targets []Target) bool {
	return !slices.ContainsFunc(targets, func(t Target) bool {
		return !slices.ContainsFunc(g.members, func(m Member) bool { return m.Key == t.Member && m.Target == t.Revision })
	})
}

// isStale reports whether the targets of an operation are no longer current.
func (g *group) isStale(job *Job) bool {
	return slices.ContainsFunc(g.members, func(m Member) bool {
		target, ok := job.Targets[m.Key]
		return ok && m.Target != "" && target != m.Target
	})
}

// isPrepared reports whether the operation of a node is ready for its grant. A node that an ended
// operation of this group left out of service skips preparation: another one could not be
// prepared without returning the node to service first.
func (g *group) isPrepared(node *Node) bool {
	if node.Disturbed && node.Job != nil && node.Job.Ours {
		return true
	}
	return node.Job != nil && node.Job.Ours && node.Job.Prepared && !g.isStale(node.Job)
}

// place returns the position of a node within its wave: lower is earlier.
func (g *group) place(node *Node) int {
	switch {
	case node.HostsOperator:
		return 2
	case !node.ControlPlane || g.policy.ControlPlane == ControlPlaneAny:
		return 0
	case g.policy.ControlPlane == ControlPlaneFirst:
		return -1
	}
	return 1
}
