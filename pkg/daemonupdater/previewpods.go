package daemonupdater

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list

// podPage is how many pods are read at a time: of a large fleet they are many.
const podPage = 500

// podsOfDaemonSet returns the pods that a DaemonSet controls.
func podsOfDaemonSet(ctx context.Context, r client.Reader, ds *appsv1.DaemonSet) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, client.InNamespace(ds.Namespace), client.MatchingLabels(ds.Spec.Selector.MatchLabels), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing pods of DaemonSet %s/%s: %w", ds.Namespace, ds.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], ds) {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods, nil
}

// drain says of nodes that are to be emptied which pods leave and what holds others.
func (p Previewer) drain(ctx context.Context, o *observation, now time.Time, empty map[string]*found, nodes []NodePreview) error {
	if len(empty) == 0 {
		return nil
	}
	var spec *topsv1.DrainPolicy
	if o.policy != nil {
		spec = o.policy.Spec.Drain
	}
	policy, err := eviction.PolicyOf(spec)
	if err != nil {
		return err
	}
	pods, err := p.podsInQuestion(ctx, policy, nodes)
	if err != nil {
		return err
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := p.Live.List(ctx, &budgets); err != nil {
		return fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	for i := range nodes {
		if n := &nodes[i]; n.Disruption != upgradeplan.ReplacePod {
			n.Evicts, n.Holds = evicted(n.Name, pods[n.Name], policyFor(policy, n.Disruption), now, budgets.Items)
		}
	}
	return nil
}

// policyFor is the policy under which a node is emptied.
func policyFor(policy eviction.Policy, disruption upgradeplan.Disruption) eviction.Policy {
	if disruption == upgradeplan.DrainNode {
		return policy.All()
	}
	return policy
}

// podsInQuestion returns the pods that drains would be about, by node.
func (p Previewer) podsInQuestion(ctx context.Context, policy eviction.Policy, nodes []NodePreview) (map[string][]corev1.Pod, error) {
	of := map[string]eviction.Policy{}
	for i := range nodes {
		if n := &nodes[i]; n.Disruption != upgradeplan.ReplacePod {
			of[n.Name] = policyFor(policy, n.Disruption)
		}
	}
	pods := map[string][]corev1.Pod{}
	for next := ""; ; {
		var page corev1.PodList
		if err := p.Live.List(ctx, &page, client.Limit(podPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		for i := range page.Items {
			pod := &page.Items[i]
			if policy, is := of[pod.Spec.NodeName]; is && policy.Concerns(pod) {
				pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], *pod)
			}
		}
		if next = page.Continue; next == "" {
			return pods, nil
		}
	}
}

// evicted tells which pods leave a node that is drained, and what holds the others, or
// them: a budget that allows no eviction now.
func evicted(node string, pods []corev1.Pod, policy eviction.Policy, now time.Time, budgets []policyv1.PodDisruptionBudget) (leave []string, holds string) {
	evict, r := eviction.Decide(eviction.Facts{NodeReady: true, Pods: drain.Filter(eviction.Candidates(node, pods, policy), nil)}, policy, nil, now, now)
	var parts []string
	if said := r.Message(); said != "" {
		parts = append(parts, said)
	}
	refused := map[string][]string{}
	var order []string
	for _, pod := range evict {
		name := pod.Namespace + "/" + pod.Name
		leave = append(leave, name)
		if budget := refusing(pod, budgets); budget != "" {
			if refused[budget] == nil {
				order = append(order, budget)
			}
			refused[budget] = append(refused[budget], name)
		}
	}
	slices.Sort(order)
	for _, budget := range order {
		parts = append(parts, fmt.Sprintf("PodDisruptionBudget %s allows no eviction now: %s", budget, message.Names(refused[budget])))
	}
	return leave, strings.Join(parts, "; ")
}

// refusing returns a budget that lets a pod not go now, "" for none.
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
