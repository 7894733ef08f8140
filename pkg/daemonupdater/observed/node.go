package observed

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// SetNode records what was read of a node: its Node and NodeUpgrade, nil if it has none, and its pods of each member.
func SetNode(s *State, name string, node *corev1.Node, upgrade *topsv1.NodeUpgrade, pods ...[]*corev1.Pod) {
	if s.Nodes == nil {
		s.Nodes, s.Upgrades = map[string]*corev1.Node{}, map[string]*topsv1.NodeUpgrade{}
	}
	s.Nodes[name], s.Upgrades[name] = node, upgrade
	for i := range pods {
		if s.Members[i].Pods == nil {
			s.Members[i].Pods = map[string][]*corev1.Pod{}
		}
		s.Members[i].Pods[name] = pods[i]
	}
}

// SetNodes records what was read of all nodes, with the pods of each member, and returns their names.
func SetNodes(s *State, nodes []corev1.Node, upgrades []topsv1.NodeUpgrade, pods [][]*corev1.Pod) iter.Seq[string] {
	names := map[string]bool{}
	s.Nodes, s.Upgrades = make(map[string]*corev1.Node, len(nodes)), make(map[string]*topsv1.NodeUpgrade, len(upgrades))
	for i := range nodes {
		s.Nodes[nodes[i].Name], names[nodes[i].Name] = &nodes[i], true
	}
	for i := range upgrades {
		s.Upgrades[upgrades[i].Name], names[upgrades[i].Name] = &upgrades[i], true
	}
	for i := range pods {
		s.Members[i].Pods = map[string][]*corev1.Pod{}
		for _, pod := range pods[i] {
			name := daemonset.NodeName(pod)
			s.Members[i].Pods[name], names[name] = append(s.Members[i].Pods[name], pod), true
		}
	}
	return maps.Keys(names)
}

// CacheKey identifies everything besides the node that a rollout.Node and its facts depend on: the group's settings,
// members, targets, policy and plan. Cached nodes are valid while the key stays the same.
func (s *State) CacheKey(in *rollout.Input) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %q", in.Settings.Strategy, in.Blocked != nil, in.Settings.Only)
	for i, m := range s.Members {
		fmt.Fprintf(&b, " %s/%d/%s", m.DaemonSet.UID, m.DaemonSet.Generation, in.Members[i].Target)
	}
	if s.Policy != nil {
		spec, _ := json.Marshal(s.Policy.Spec) // generations repeat after a restore of etcd
		fmt.Fprintf(&b, " %s/%s", s.Policy.UID, spec)
	}
	if plan := s.Plan.inForce; plan != nil {
		spec, _ := json.Marshal([]any{plan.Object.Spec.Jobs, plan.Object.Spec.Batches})
		fmt.Fprintf(&b, " %x", sha256.Sum256(spec))
	}
	fmt.Fprintf(&b, " %q %t", in.Policy.PlanVersion, in.Policy.Versions != nil)
	return b.String()
}

// zoneLabel spreads starts over failure domains.
const zoneLabel = corev1.LabelTopologyZone

// RolloutNode converts a node that was read and exists, with the pods that are or should be on it. revision is Input.Revision.
func (s *State) RolloutNode(name, revision string, known Zones, now time.Time) rollout.Node {
	node, upgrade := s.Nodes[name], s.Upgrades[name]
	requests := openRequests(upgrade, now)
	n := rollout.Node{Name: node.Name, UID: node.UID, Machine: node.Status.NodeInfo.MachineID, Zone: node.Labels[zoneLabel], HostsOperator: s.OperatorNode != "" && node.Name == s.OperatorNode,
		LeftOut: !s.onlyFor().HasNode(node.Name), ControlPlane: IsControlPlane(node)}
	if s.Policy != nil {
		describeNode(&n, node, &s.Policy.Spec, known)
	}
	_, written := daemonset.NodeReady(node)
	n.ReadyWritten = written.Time
	n.Ready, n.ReadySince, n.ReadyEarliest = s.StateTimes.NodeReady(node, now)
	n.Requested, n.Agent = lastRequest(upgrade, now), AgentOf(upgrade)
	describeOperations(&n, upgrade, s.OperationKey(), revision, now)
	describePolicy(n.Operation, upgrade, s.Policy)
	var running []*appsv1.DaemonSet
	for i, m := range s.Members {
		placement := daemonset.ShouldRun(m.DaemonSet, node)
		pod := daemonset.PodOf(m.Pods[name])
		elsewhere := (pod == nil && !placement.Create) || (pod != nil && !placement.Keep)
		gone := pod == nil || daemonset.HasLeft(pod) || daemonset.AwaitsUpgrade(pod) // another pod may have been there since the node was created
		// Where a pod does not belong, it is not missing: once it does, it is missing only since then.
		missing := s.StateTimes.MissingSince(string(m.DaemonSet.UID)+" "+string(node.UID), gone && !elsewhere, now)
		if elsewhere {
			continue
		}
		p := m.Pod(i, pod, s.StateTimes, now)
		if gone {
			p.NotReadySince = missing
		}
		p.Node, p.NoSuccessor = node.Name, placement.Why
		p.Request = requests[m.DaemonSet.UID]
		p.RequestRuns = isRunning(p.Request, upgrade)
		if pod != nil && pod.Spec.NodeName != "" {
			running = append(running, m.DaemonSet)
		}
		if pod != nil {
			p.Pull = pullOf(s, i, pod, node, upgrade, now)
		}
		n.Pods = append(n.Pods, p)
	}
	n.New = newOn(s.New, node)
	s.Plan.describe(&n, s.Members)
	s.describeRivals(&n, running)
	s.describeVerification(&n, node, upgrade, now)
	return n
}

// newOn returns the components of the new members that will run on a node.
func newOn(members []Member, node *corev1.Node) (list []versions.Component) {
	for _, m := range members {
		if daemonset.ShouldRun(m.DaemonSet, node).Create {
			list = append(list, versions.Component{Name: m.Component(), Gets: m.version()})
		}
	}
	return list
}

// Pod converts a pod of the member with the given index; a nil pod is missing.
func (m Member) Pod(index int, pod *corev1.Pod, seen *daemonset.StateTimes, now time.Time) rollout.Pod {
	p := rollout.Pod{Member: index}
	if pod == nil {
		return p
	}
	p.Image = daemonset.Version(&pod.Spec)
	p.Name, p.UID, p.Version, p.Created = pod.Name, pod.UID, pod.ResourceVersion, pod.CreationTimestamp.Time
	p.Revision = daemonset.RevisionHash(pod)
	p.Terminating, p.Gated, p.Unbound = pod.DeletionTimestamp != nil, daemonset.AwaitsUpgrade(pod), pod.Spec.NodeName == ""
	available, wait := seen.Availability(pod, m.DaemonSet.Spec.MinReadySeconds, now)
	p.Available = available
	if wait > 0 {
		p.AvailableAt = now.Add(wait)
	}
	p.AvailableSince, p.AvailableWritten = seen.AvailableSince(pod, m.DaemonSet.Spec.MinReadySeconds, now)
	p.WorksSince, p.ReadyAgain = readySince(m.DaemonSet, pod, seen, now)
	p.NotReadySince, p.NotReadyEarliest = seen.NotReadySince(pod, now)
	p.Ran = daemonset.RanFor(pod)
	p.CrashLooping, _ = daemonset.CrashLooping(pod)
	if p.Placeholder = daemonset.IsPlaceholder(pod); p.Placeholder && !p.Terminating {
		p.Available, p.NotReadySince = true, time.Time{} // no container is to run in it
	}
	return p
}

// readySince returns rollout.Pod.WorksSince and ReadyAgain.
func readySince(ds *appsv1.DaemonSet, pod *corev1.Pod, seen *daemonset.StateTimes, now time.Time) (works, again time.Time) {
	ready := seen.ReadySince(pod, now)
	if !ready.IsZero() && pod.DeletionTimestamp == nil {
		works = ready.Add(time.Duration(ds.Spec.MinReadySeconds) * time.Second)
	}
	if daemonset.HasRestarted(pod) {
		again = ready
	}
	return works, again
}

// describeRivals marks the unscheduled pods that wait for a rival: a running pod of a DaemonSet that they take over from,
// or hand over to, beside which they must not run. Such a pod counts as available.
func (s *State) describeRivals(n *rollout.Node, running []*appsv1.DaemonSet) {
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.UID == "" || p.Terminating || daemonset.PodOf(s.Members[p.Member].Pods[n.Name]).Spec.NodeName != "" {
			continue
		}
		p.RivalRuns = slices.ContainsFunc(running, func(ds *appsv1.DaemonSet) bool { return daemonset.AreRivals(s.Members[p.Member].DaemonSet, ds) })
		if p.RivalRuns {
			p.Available, p.NotReadySince = true, time.Time{}
		}
	}
}
