package rollout

import (
	"cmp"
	"slices"
	"strings"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// RestartsOnly stands for the strategy of a gr that has none: nothing is upgraded, but the container
// runtime is restarted where containers get no cards without that.
const RestartsOnly daemonset.Strategy = "RestartsOnly"

func groupOf(in *Input) group {
	return group{strategy: in.Settings.Strategy, members: in.Members, policy: in.Policy, deadlines: in.Deadlines}
}

// isDue reports whether a pod may be replaced, or verified by an operation.
func isDue(g *group, node *Node, pod *Pod) bool {
	return g.toReplace(node, pod) || g.toVerify(node, pod)
}

// toReplace reports whether a pod of a node is outdated and may be replaced.
func (g *group) toReplace(node *Node, pod *Pod) bool {
	return pod.NoSuccessor == "" && g.wants(node, pod) && !isDisallowed(g, node, pod)
}

func isDisallowed(g *group, node *Node, pod *Pod) bool {
	return g.isOutdated(pod) && pod.Pin == "" && whyNotAllowed(g, node) != ""
}

// whyNotAllowed returns why the policy does not allow the versions that a node would get, "" if it does.
// If it does not, no pod of the node is replaced by a newer one, not even one that is allowed by itself,
// because whether a version fits depends on all components.
func whyNotAllowed(g *group, node *Node) string {
	var says []string
	for _, r := range refusalsOf(g, node) {
		says = append(says, r.String())
	}
	return strings.Join(says, "; ")
}

func refusalsOf(g *group, node *Node) []versions.Refusal {
	if g.policy.Versions == nil {
		return nil
	}
	return g.policy.Versions.Refuse(versionsOf(g, node))
}

// versionsOf returns the versions that a node has and those that it gets: under OTA the requested ones,
// or all if nothing is requested.
func versionsOf(g *group, node *Node) *versions.Node {
	n := &versions.Node{Kernel: node.Kernel, Labels: node.Labels}
	withoutRequest := g.strategy == daemonset.OTA && !slices.ContainsFunc(node.Pods, func(pod Pod) bool { return g.isOutdated(&pod) && g.wants(node, &pod) })
	heavy := slices.ContainsFunc(node.Pods, func(pod Pod) bool { return g.members[pod.Member].Heavy && getsNewer(g, node, &pod, withoutRequest) })
	for i := range node.Pods {
		pod := &node.Pods[i]
		m := &g.members[pod.Member]
		c := componentOf(n, m.Component)
		c.Changes = c.Changes || getsNewer(g, node, pod, withoutRequest) || heavy && m.ReplacedWithOthers && g.isOutdated(pod)
		addVersions(c, m, pod)
	}
	for _, c := range node.New {
		componentOf(n, c.Name).Gets = c.Gets
	}
	for i := range n.Components {
		if c := &n.Components[i]; !c.Changes && c.Has != "" {
			c.Gets = c.Has
		}
	}
	return n
}

// getsNewer reports whether a pod gets the newest version: with all, every outdated pod that is not left out;
// otherwise those that the strategy allows to replace. A pod that is rolled back individually does not.
func getsNewer(g *group, node *Node, pod *Pod, all bool) bool {
	return pod.Pin == "" && g.isOutdated(pod) && (all && !isLeftOut(g, node, pod) || g.wants(node, pod))
}

// addVersions adds to a component the image that one of its DaemonSets gives its pods, none if it leaves, and
// the image of its pod. Of two DaemonSets, the pod of the leaving one counts as what runs. A pod that goes
// back alone counts as if it had gone back.
func addVersions(c *versions.Component, m *Member, pod *Pod) {
	if m.Image != "" {
		c.Gets = m.Image
	}
	if back := m.Earlier[pod.Pin]; back != "" {
		c.Has, c.Gets = back, back
	} else if !pod.isAbsent() && !pod.runsNothing() && (c.Has == "" || m.Image == "") {
		c.Has = pod.Image
	}
}

// componentOf returns the component of a node with a name, and adds it if there is none.
func componentOf(n *versions.Node, name string) *versions.Component {
	for i := range n.Components {
		if n.Components[i].Name == name {
			return &n.Components[i]
		}
	}
	n.Components = append(n.Components, versions.Component{Name: name})
	return &n.Components[len(n.Components)-1]
}

// wants reports whether a pod that is outdated or has no cards would be replaced if it had a successor.
func (g *group) wants(node *Node, pod *Pod) bool {
	return !isLeftOut(g, node, pod) && (g.isOutdated(pod) && g.strategy != RestartsOnly && g.allows(pod) || lacksCards(g, pod))
}

// lacksCards reports whether a pod at its target has to be replaced to get cards. That does not
// depend on the strategy, because it disturbs no workload.
func lacksCards(g *group, pod *Pod) bool {
	return pod.NoCards && !pod.isAbsent() && !g.isOutdated(pod) && g.strategy != daemonset.NoStrategy
}

// awaitsCards reports whether the device plugin among these pods was replaced under a slot, and its node
// offers none of its cards.
func awaitsCards(g *group, slot *Slot, pods []Pod) bool {
	return slot != nil && len(offeringNone(g, slot, pods)) > 0
}

// offeringNone returns the targets of the device plugins of a slot of which the node offers no cards.
func offeringNone(g *group, slot *Slot, pods []Pod) (plugins []Target) {
	for i := range pods {
		if pods[i].OffersNone && slices.Contains(slot.Members, g.keyOf(&pods[i])) {
			plugins = append(plugins, g.targetsOf([]string{g.keyOf(&pods[i])})...)
		}
	}
	return plugins
}

// isLeftOut reports whether the upgrade is limited to other nodes, other members or other pods. A pin does
// not depend on the upgrade, so a pinned pod is never left out.
func isLeftOut(g *group, node *Node, pod *Pod) bool {
	return pod.Pin == "" && (node.LeftOut || g.members[pod.Member].LeftOut || pod.LeftOut)
}

// isOutdated reports whether the pod exists, is not terminating, and is not at its target, which
// is known. A pinned pod that waits at the gate is not outdated: the gate replaces it.
func (g *group) isOutdated(pod *Pod) bool {
	target := targetOf(g, pod)
	return !pod.isAbsent() && target != "" && pod.Revision != target && (pod.Pin == "" || !pod.Gated)
}

// targetOf returns the revision that a pod is brought to: the one that it is pinned to, or the target of its
// member.
func targetOf(g *group, pod *Pod) string { return cmp.Or(pod.Pin, g.members[pod.Member].Target) }

// isBehind reports whether a pod that is not terminating is not at the target of its member.
func isBehind(g *group, pod *Pod) bool {
	target := g.members[pod.Member].Target
	return !pod.isAbsent() && target != "" && pod.Revision != target
}

// needsVerification reports whether an operation must still verify a pod at its target, or restart the
// runtime for it.
func (g *group) needsVerification(node *Node, pod *Pod) bool {
	member := &g.members[pod.Member]
	if !member.Heavy || pod.isAbsent() || member.Target == "" || g.isOutdated(pod) || pod.Placeholder {
		return false
	}
	return g.isUnverified(pod) || member.Restarts && node.NeedsRestart
}

// needsVerificationNow reports whether an operation must do so now: the runtime is restarted only for a
// toolkit that is available.
func (g *group) needsVerificationNow(node *Node, pod *Pod) bool {
	return g.needsVerification(node, pod) && (pod.Available || g.isUnverified(pod))
}

func (g *group) isUnverified(pod *Pod) bool { return pod.Unverified && g.strategy != RestartsOnly }

// toVerify reports whether an operation must and may verify a pod, or restart the runtime for it, now.
func (g *group) toVerify(node *Node, pod *Pod) bool {
	return g.needsVerificationNow(node, pod) && node.LeftToAdministrator == "" && !isLeftOut(g, node, pod) &&
		(g.allows(pod) || g.restartsWithoutRequest(node, pod))
}

// leavesOut reports whether work on a pod is left out that the strategy would otherwise allow.
func (g *group) leavesOut(node *Node, pod *Pod) bool {
	return g.hasWork(node, pod) && g.allows(pod) && (isLeftOut(g, node, pod) || g.isOutdated(pod))
}

// LeavesOut reports whether work on a pod of a node is left out that the strategy would otherwise allow.
func LeavesOut(in *Input, node *Node, pod *Pod) bool {
	g := groupOf(in)
	return g.leavesOut(node, pod)
}

// hasWork reports whether something is left to do on a pod.
func (g *group) hasWork(node *Node, pod *Pod) bool {
	return g.isOutdated(pod) && g.strategy != RestartsOnly || g.needsVerificationNow(node, pod) || lacksCards(g, pod)
}

// allows reports whether the strategy allows work on a pod. AdvancedRollingUpdate and RestartsOnly always
// do. OTA does so in three cases (but see restartsWithoutRequest): nothing runs in the pod, so nothing is
// disturbed; the pod is pinned, which needs no request; or a request on the node names this very pod and its
// target. If the node was started before the target changed, a request for the former target is enough.
func (g *group) allows(pod *Pod) bool {
	if g.strategy == daemonset.OTA {
		return pod.runsNothing() || (pod.Pin != "" || pod.Request != nil && pod.Request.Pod.UID == pod.UID && (pod.RequestRuns || g.isRequested(pod)))
	}
	return g.strategy == daemonset.AdvancedRollingUpdate || g.strategy == RestartsOnly
}

// Under OTA all work needs a request, except the restart of the container runtime of an idle node: only
// pods of the operator use its cards, and every pod is at its target. Only an operation can find out whether
// a node is idle. So it is prepared without a request (Operation.OnlyIdle), checks that, and ends before it
// touches a node that is in use. On such a node it is kept and checks again from time to time, while the
// node awaits a request. After a request, the node gets another operation, which may touch nodes in use.

// allowsWork reports whether the strategy allows some of the work on a node, even if the node is in use.
func (g *group) allowsWork(node *Node) bool {
	return slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.hasWork(node, &p) && g.allows(&p) })
}

// restartsWithoutRequest reports whether the runtime may be restarted for a pod under OTA without a request:
// nothing shows that the node is in use.
func (g *group) restartsWithoutRequest(node *Node, pod *Pod) bool {
	return g.members[pod.Member].Restarts && g.mayBeIdle(node) && (node.Operation == nil || !node.Operation.InUse)
}

// mayBeIdle reports whether a restart is all that a node needs under OTA, so that no request is needed if
// the node is idle. An operation of another group is not replaced for that.
func (g *group) mayBeIdle(node *Node) bool {
	free := node.Operation == nil || node.Operation.Ours && node.Operation.OnlyIdle && !node.Operation.KeptCordoned
	return g.strategy == daemonset.OTA && node.NeedsRestart && free &&
		!slices.ContainsFunc(node.Pods, func(p Pod) bool { return g.isOutdated(&p) })
}

// isRequested reports whether a pod has a request for its target. One of an older node agent names no revision: it is for any.
func (g *group) isRequested(pod *Pod) bool {
	r := pod.Request
	return r != nil && (r.Revision == "" || r.Revision == g.members[pod.Member].Target)
}

// needsOperation reports whether a pod has to be replaced, or verified, by an operation. A pod in which
// nothing runs is just deleted, because that disturbs no workload.
func (g *group) needsOperation(node *Node, pod *Pod) bool {
	return g.members[pod.Member].Heavy && !pod.runsNothing() && g.toReplace(node, pod) || g.toVerify(node, pod)
}

// agentLacks returns the first capability that the operation of a node needs and its node agent lacks, "" if
// there is none. An operation for a node that is kept cordoned is for all heavy members.
func (g *group) agentLacks(node *Node) string {
	for i := range node.Pods {
		member := &g.members[node.Pods[i].Member]
		if !g.needsOperation(node, &node.Pods[i]) && (!member.Heavy || !node.Operation.isKeptCordoned()) {
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

// isMoving reports whether a pod is being replaced: missing, terminating, or at its target and not
// available.
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

// haveTargets reports whether all of these revisions are still targets.
func (g *group) haveTargets(targets []Target) bool {
	return !slices.ContainsFunc(targets, func(t Target) bool {
		return !slices.ContainsFunc(g.members, func(m Member) bool { return m.Key == t.Member && m.Target == t.Revision })
	})
}

// isStale reports whether the operation of a node would not do what the node needs now. It is stale if one of
// its targets is no longer current. Before its grant, it is also stale in these cases: a member of it is left
// out or removed now; a heavy member is missing, so the node would be drained twice; the policy was edited; or
// it is for an idle node only, and the node has a request now.
func (g *group) isStale(node *Node) bool {
	op, targets := node.Operation, node.Operation.Targets
	return slices.ContainsFunc(g.members, func(m Member) bool {
		target, ok := targets[m.Key]
		now := targetOn(g, node, &m)
		return ok && now != "" && target != now
	}) || !op.Granted && targets != nil &&
		(hasFormer(g.members, targets) || op.OldPolicy || op.OnlyIdle && g.allowsWork(node) || g.changedScope(node, targets))
}

// targetOn returns the revision that the pod of a member on a node is brought to: the one that it is pinned to, or the
// target of the member.
func targetOn(g *group, node *Node, m *Member) string {
	for i := range node.Pods {
		if pod := &node.Pods[i]; pod.Pin != "" && g.keyOf(pod) == m.Key {
			return pod.Pin
		}
	}
	return m.Target
}

// changedScope reports whether an operation includes a pod that is left out now, or lacks one of a heavy
// member for which the node needs an operation.
func (g *group) changedScope(node *Node, targets map[string]string) bool {
	return slices.ContainsFunc(node.Pods, func(p Pod) bool {
		_, covered := targets[g.keyOf(&p)]
		if p.runsNothing() { // it is replaced with its rival
			return false
		}
		wanted := isDue(g, node, &p)
		member := &g.members[p.Member]
		excluded := g.isOutdated(&p) || isLeftOut(g, node, &p) && g.needsVerification(node, &p)
		return covered && !wanted && excluded && !member.ReplacedWithOthers || !covered && wanted && member.Heavy
	})
}

// hasFormer reports whether one of the targets is of a member that was removed.
func hasFormer(members []Member, targets map[string]string) bool {
	for key := range targets {
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Key == key }) {
			return true
		}
	}
	return false
}

// isPrepared reports whether the operation of a node is ready for its grant. A node that an ended
// operation of this group left out of service skips preparation: another operation could not be
// prepared unless the node returned to service first. One that was told to end is not ready: its end would count as a failure
// if it had been granted.
func (g *group) isPrepared(node *Node) bool {
	if node.Disturbed && node.Operation != nil && node.Operation.Ours {
		return true
	}
	return node.Operation != nil && node.Operation.Ours && node.Operation.Prepared && !node.Operation.Aborted && !g.isStale(node)
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

// lacksImages reports whether a node depends on the pull of the images of the successor of a pod.
func lacksImages(g *group, node *Node, pod *Pod) bool {
	return pod.Pull.State != PullNone && pod.Pin == "" && !pod.runsNothing() && g.isOutdated(pod) && g.toReplace(node, pod)
}
