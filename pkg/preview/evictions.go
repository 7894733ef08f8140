package preview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Drains returns the eviction policies of the nodes that are drained, by name; nil if no node
// is. policy is the UpgradePolicy of the group, or nil. own are the UIDs of the operator's DaemonSets;
// further are the resources that these offer under names that the user chose.
func (r *Rollout) Drains(policy *topsv1.UpgradePolicy, own map[types.UID]bool, further []corev1.ResourceName) (map[string]eviction.Policy, error) {
	var spec *topsv1.DrainPolicy
	if policy != nil {
		spec = policy.Spec.Drain
	}
	var drains map[string]eviction.Policy
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Disruption == upgradeplan.ReplacePod {
			continue
		}
		with, err := eviction.PolicyOf(spec)
		if err != nil {
			return nil, err
		}
		with = with.WithResources(further)
		if n.Disruption == upgradeplan.DrainNode {
			with = with.All()
		}
		if slices.Contains(n.Upgrades, upgradeplan.TargetDriver) {
			with = with.WithOwn(own).ReplacingDriver(true)
		}
		if drains == nil {
			drains = map[string]eviction.Policy{}
		}
		drains[n.Name] = with
	}
	return drains, nil
}

// Evict adds which pods leave the drained nodes, and what blocks the others. pods are the pods
// that the drains consider, by node; operator is the pod that carries them out.
func (r *Rollout) Evict(drains map[string]eviction.Policy, pods map[string][]eviction.Pod, operator eviction.Self, budgets []policyv1.PodDisruptionBudget, now time.Time) {
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if policy, drained := drains[n.Name]; drained {
			n.Evicts, n.BlockedBy = evicted(eviction.Facts{NodeReady: true, Pods: pods[n.Name], Self: operator}, policy, now, budgets)
		}
	}
}

// evicted returns which pods leave a drained node, and what blocks pods: the policy, or a
// PodDisruptionBudget that allows no eviction now.
func evicted(facts eviction.Facts, policy eviction.Policy, now time.Time, budgets []policyv1.PodDisruptionBudget) (leave []string, holds string) {
	r := eviction.Expect(facts, policy, nil, eviction.StartAt(now), now)
	refused := map[string][]string{}
	var order []string
	for _, o := range r.Of(eviction.Due) {
		name := o.Pod.String()
		leave = append(leave, name)
		i := slices.IndexFunc(facts.Pods, func(p eviction.Pod) bool { return p.UID == o.UID })
		if budget := refusing(facts.Pods[i].Pod, budgets); budget != "" {
			if refused[budget] == nil {
				order = append(order, budget)
			}
			refused[budget] = append(refused[budget], name)
		}
	}
	var parts []string
	r.Pods = slices.DeleteFunc(r.Pods, func(o eviction.Outcome) bool { return o.State == eviction.Due })
	if said := r.Message(); said != "" {
		parts = append(parts, said)
	}
	slices.Sort(order)
	for _, budget := range order {
		parts = append(parts, fmt.Sprintf("PodDisruptionBudget %s allows no eviction now: %s", budget, message.Names(refused[budget])))
	}
	return leave, strings.Join(parts, "; ")
}

// refusing returns a PodDisruptionBudget that does not allow the eviction of a pod now, or "".
func refusing(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) string {
	for i := range budgets {
		b := &budgets[i]
		if b.Namespace != pod.Namespace || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			return b.Namespace + "/" + b.Name
		}
	}
	return ""
}
