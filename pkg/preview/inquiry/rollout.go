package inquiry

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/ownership"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list

// rolloutReader reads the input of a rollout. operator is the pod of the active manager, which no drain evicts.
type rolloutReader struct {
	ownership.Reader
	operator eviction.Self
}

// rollout predicts the rollout of a group with the given members.
func (r rolloutReader) rollout(ctx context.Context, s *observed.State, now time.Time, q *preview.Question) (*preview.Rollout, error) {
	if len(s.Members) == 0 {
		return preview.Nothing(""), nil
	}
	book := upgradeplan.DefaultBook()
	if err := r.readRollout(ctx, s, &book); err != nil {
		return nil, err
	}
	in := s.Input(&book, rollout.DefaultDeadlines, now)
	if blocked := preview.Blocked(&in); blocked != "" {
		return preview.Nothing(blocked), nil
	}
	if err := r.readNodes(ctx, s); err != nil {
		return nil, err
	}
	outlook, err := preview.RolloutOf(s, in, &book, q.Approved)
	if err != nil || q.WithoutEvictions {
		return outlook, err
	}
	sets, err := r.DaemonSets(ctx, r)
	if err != nil {
		return nil, err
	}
	held, _, err := r.HeldResources(ctx, sets)
	if err != nil {
		return nil, err
	}
	drains, err := outlook.Drains(s.Policy, ownership.UIDs(sets, book.Components()), held)
	if err != nil || len(drains) == 0 {
		return outlook, err
	}
	pods, err := r.podsOn(ctx, drains)
	if err != nil {
		return nil, err
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := r.Live.List(ctx, &budgets); err != nil {
		return nil, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	outlook.Evict(drains, pods, r.operator, budgets.Items, in.Now)
	return outlook, nil
}

// readRollout reads the DaemonRollout of a group, its policy, and its plan unless the state has one.
func (r rolloutReader) readRollout(ctx context.Context, s *observed.State, book *upgradeplan.LogicBook) error {
	var found topsv1.DaemonRollout
	key := s.Group.RolloutKey(r.Namespace)
	if err := r.Get(ctx, key, &found); denial.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting DaemonRollout %s: %w", key.Name, err)
	}
	s.TakeRollout(key, &found)
	var err error
	if s.Policy, err = access.Policy(ctx, r, s.PolicyName()); err != nil {
		return err
	}
	if s.Plan.Read != nil {
		return nil
	}
	s.Plan, err = access.Plan(ctx, r, observed.PlanName(s), book)
	return err
}

// readNodes reads all nodes, with their NodeUpgrades and the pods of the members.
func (r rolloutReader) readNodes(ctx context.Context, s *observed.State) error {
	var nodes corev1.NodeList
	var upgrades topsv1.NodeUpgradeList
	if err := errors.Join(r.List(ctx, &nodes, client.UnsafeDisableDeepCopy), r.List(ctx, &upgrades, client.UnsafeDisableDeepCopy)); err != nil {
		return fmt.Errorf("reading the fleet: %w", err)
	}
	pods := make([][]*corev1.Pod, len(s.Members))
	for i, m := range s.Members {
		var err error
		if pods[i], err = r.podsOfDaemonSet(ctx, m.DaemonSet); err != nil {
			return err
		}
	}
	observed.SetNodes(s, nodes.Items, upgrades.Items, pods)
	return nil
}

// podsOfDaemonSet returns the pods that a DaemonSet controls.
func (r rolloutReader) podsOfDaemonSet(ctx context.Context, ds *appsv1.DaemonSet) ([]*corev1.Pod, error) {
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

// podPage is how many pods are read at a time, as a large fleet has many.
const podPage = 500

// podsOn returns the pods that drains consider, by node, with the results of kubectl's
// filters.
func (r rolloutReader) podsOn(ctx context.Context, drains map[string]eviction.Policy) (map[string][]eviction.Pod, error) {
	pods := map[string][]corev1.Pod{}
	for next := ""; ; {
		var page corev1.PodList
		if err := r.Live.List(ctx, &page, client.Limit(podPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("listing pods: %w", err)
		}
		for i := range page.Items {
			pod := &page.Items[i]
			if policy, is := drains[pod.Spec.NodeName]; is && policy.Concerns(pod) {
				pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], *pod)
			}
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	considered, known := map[string][]eviction.Pod{}, drain.Lookups{}
	for node := range pods {
		considered[node] = drain.Pods(ctx, r.Live, node, pods[node], drains[node], known)
	}
	return considered, nil
}
