package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// drivers is a gr whose driver is upgraded by operations on the nodes.
type drivers struct {
	*scenarios
	t    *testing.T
	name string
}

// newDrivers deploys a gr with a driver, a device plugin and an exporter, upgraded
// node by node under a policy.
func (s *scenarios) newDrivers(ctx context.Context, t *testing.T, name string, policy topsv1.UpgradePolicySpec) *drivers {
	t.Helper()
	return s.newHeavy(ctx, t, name, policy, "3/3", topsv1.GcuResourceSpec{
		Driver: &topsv1.BaseFields{Version: "v1"}, DevicePlugin: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}})
}

// newHeavy deploys a gr, upgraded node by node under a policy.
func (s *scenarios) newHeavy(ctx context.Context, t *testing.T, name string, policy topsv1.UpgradePolicySpec, ready string, spec topsv1.GcuResourceSpec) *drivers {
	t.Helper()
	s.create(ctx, t, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policy})
	annotations := rolling("1")
	annotations[topsv1.AnnotationUpgradePolicy] = name
	s.create(ctx, t, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec})
	s.shows(ctx, t, name, "deployed", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && gr.Status.ReadyResource == ready
	})
	return &drivers{scenarios: s, t: t, name: name}
}

// upgrade changes the version of the driver and waits until the rollout has it.
func (d *drivers) upgrade(ctx context.Context, version string) {
	d.t.Helper()
	d.upgradeOf(ctx, "driver", version)
}

// upgradeOf changes the version of a component and waits until the rollout has it.
func (d *drivers) upgradeOf(ctx context.Context, component, version string) {
	d.t.Helper()
	before := ""
	d.reaches(ctx, "there", func(r *topsv1.DaemonRolloutStatus) bool { before = r.Revision; return complete(r) })
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{%q:{"version":%q}}}`, component, version))
	if err := d.Client.Patch(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: d.name}}, patch); err != nil {
		d.t.Fatal(err)
	}
	d.reaches(ctx, "on its way", func(r *topsv1.DaemonRolloutStatus) bool { return r.Revision != before && !complete(r) })
}

// reaches waits until the status of the rollout is as wanted.
func (d *drivers) reaches(ctx context.Context, what string, is func(*topsv1.DaemonRolloutStatus) bool) {
	d.t.Helper()
	d.eventually(ctx, d.t, func() error {
		var r topsv1.DaemonRollout
		if err := d.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: d.name}, &r); err != nil {
			return err
		}
		if !is(&r.Status) {
			return fmt.Errorf("the rollout is not %s: %+v", what, r.Status)
		}
		return nil
	})
}

// training starts pods that use GCUs, with a budget that leaves so many of them.
func (d *drivers) training(ctx context.Context, replicas, minAvailable int32) {
	d.t.Helper()
	labels := map[string]string{"app": d.name + "-training"}
	meta := metav1.ObjectMeta{Namespace: "default", Name: d.name + "-training"}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
				WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}},
			Containers: []corev1.Container{{Name: "main", Image: "training:1", Env: []corev1.EnvVar{{Name: "ENFLAME_VISIBLE_DEVICES", Value: "all"}}}},
		}}}}
	d.create(ctx, d.t, deployment)
	d.create(ctx, d.t, &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: ptr.To(intstr.FromInt32(minAvailable)), Selector: &metav1.LabelSelector{MatchLabels: labels}}})
	d.eventually(ctx, d.t, func() error {
		var budget policyv1.PodDisruptionBudget
		if err := d.Client.Get(ctx, client.ObjectKey{Namespace: meta.Namespace, Name: meta.Name}, &budget); err != nil {
			return err
		}
		if budget.Status.CurrentHealthy != replicas {
			return fmt.Errorf("%d of %d training pods are healthy", budget.Status.CurrentHealthy, replicas)
		}
		return nil
	})
}

// podsByNode returns the pods with a label by their node.
func (d *drivers) podsByNode(ctx context.Context, key, value string) map[string]corev1.Pod {
	d.t.Helper()
	var list corev1.PodList
	if err := d.Client.List(ctx, &list, client.MatchingLabels{key: value}); err != nil {
		d.t.Fatal(err)
	}
	byNode := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		byNode[pod.Spec.NodeName] = pod
	}
	return byNode
}

// closed returns the nodes that take no pods, and what the operator left on nodes.
func (d *drivers) closed(ctx context.Context) (cordoned, left []string) {
	d.t.Helper()
	var nodes corev1.NodeList
	if err := d.Client.List(ctx, &nodes); err != nil {
		d.t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Spec.Unschedulable {
			cordoned = append(cordoned, node.Name)
		}
		if mark, ok := node.Annotations[topsv1.AnnotationCordonedBy]; ok {
			left = append(left, node.Name+" is marked by "+mark)
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == topsv1.TaintDriverUpgrade {
				left = append(left, node.Name+" is closed by "+taint.Value)
			}
		}
	}
	slices.Sort(cordoned)
	return cordoned, left
}

// givenBack waits until no node but those is cordoned, and nothing of ours is left.
func (d *drivers) givenBack(ctx context.Context, but ...string) {
	d.t.Helper()
	d.eventually(ctx, d.t, func() error {
		if cordoned, left := d.closed(ctx); !slices.Equal(cordoned, but) || len(left) > 0 {
			return fmt.Errorf("cordoned %v, want %v; left %v", cordoned, but, left)
		}
		return nil
	})
}

// soon is a policy that does not let simulated nodes wait.
func soon() topsv1.UpgradePolicySpec {
	return topsv1.UpgradePolicySpec{Validation: &topsv1.ValidationPolicy{SoakSeconds: 1}}
}

// driverUpgrade: each node is emptied of what uses its GCUs, gets the driver, and
// then new pods of what uses the device; a node that a person cordoned stays so.
func (s *scenarios) driverUpgrade(ctx context.Context, t *testing.T) {
	d := s.newDrivers(ctx, t, "drivers", soon())
	d.training(ctx, 3, 2)
	before := d.podsByNode(ctx, "app", d.name+"-training")
	const foreign = "node-0002"
	if _, err := s.Kubectl(ctx, "cordon", foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.Kubectl(context.WithoutCancel(ctx), "uncordon", foreign); err != nil {
			t.Error(err)
		}
	})
	d.upgrade(ctx, "v2")
	d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool {
		return complete(r) && r.Updated == scenarioNodes && r.Total == scenarioNodes
	})
	d.givenBack(ctx, foreign)

	drivers, plugins := d.podsByNode(ctx, "app.kubernetes.io/name", "enflame-gcu-driver"), d.podsByNode(ctx, "app.kubernetes.io/name", "enflame-gcu-k8s-plugin")
	for node, driver := range drivers {
		if image := driver.Spec.Containers[0].Image; !hasTag(image, "v2") {
			t.Errorf("the driver of %s has image %s", node, image)
		}
		if plugin := plugins[node]; plugin.CreationTimestamp.Before(&driver.CreationTimestamp) {
			t.Errorf("the device plugin of %s is older than its driver", node)
		}
		if !s.agents.Host(node).Pulled(driver.Spec.Containers[0].Image) {
			t.Errorf("the image was not pulled ahead on %s", node)
		}
		d.hasHistory(ctx, node)
	}
	for _, pod := range d.podsByNode(ctx, "app", d.name+"-training") {
		if old, ok := before[pod.Spec.NodeName]; ok && old.UID == pod.UID {
			t.Errorf("training pod %s was on %s all the time", pod.Name, pod.Spec.NodeName)
		}
	}
}

func hasTag(image, tag string) bool { return strings.HasSuffix(image, ":"+tag) }

// hasHistory checks what a NodeUpgrade tells of its only operation.
func (d *drivers) hasHistory(ctx context.Context, node string) {
	d.t.Helper()
	var u topsv1.NodeUpgrade
	if err := d.Client.Get(ctx, client.ObjectKey{Name: node}, &u); err != nil {
		d.t.Fatal(err)
	}
	last := u.Status.History[len(u.Status.History)-1]
	if last.Phase != topsv1.OperationDone || len(last.Result.Fail) > 0 || len(last.Result.Undo) > 0 ||
		!slices.Contains(last.Result.Done, node+"_driver_replace") || !slices.Contains(last.Result.Done, node+"_node_evict") {
		d.t.Errorf("the last operation of %s is %+v", node, last)
	}
}

func complete(r *topsv1.DaemonRolloutStatus) bool {
	return slices.ContainsFunc(r.Conditions, func(c metav1.Condition) bool {
		return c.Type == topsv1.RolloutComplete && c.Status == metav1.ConditionTrue
	})
}

// drainRefused: a node whose pods may not be evicted is given back and put off with
// the name of the budget; the others go on.
func (s *scenarios) drainRefused(ctx context.Context, t *testing.T) {
	policy := soon()
	policy.Drain = &topsv1.DrainPolicy{TimeoutSeconds: 6}
	d := s.newDrivers(ctx, t, "refused", policy)
	d.training(ctx, 2, 2)
	stays := d.podsByNode(ctx, "app", d.name+"-training")
	d.upgrade(ctx, "v2")
	d.reaches(ctx, "done where it may be", func(r *topsv1.DaemonRolloutStatus) bool {
		return r.Updated == scenarioNodes-2 && r.InFlightNodes == 0 && slices.ContainsFunc(r.Waiting, func(w topsv1.WaitingNote) bool {
			return w.Reason == "Deferred" && w.Nodes == 2 && strings.Contains(w.Message, "DrainTimeout") &&
				strings.Contains(w.Message, "PodDisruptionBudget default/refused-training refuses")
		})
	})
	d.givenBack(ctx)
	for node, pod := range d.podsByNode(ctx, "app", d.name+"-training") {
		if stays[node].UID != pod.UID {
			t.Errorf("training pod %s is new", pod.Name)
		}
	}
}

// deletedHalfWay: when a gr is deleted in the middle of an operation its node is
// given back.
func (s *scenarios) deletedHalfWay(ctx context.Context, t *testing.T) {
	policy := soon()
	policy.Validation.SoakSeconds = 600
	d := s.newDrivers(ctx, t, "half-way", policy)
	d.upgrade(ctx, "v2")
	s.eventually(ctx, t, func() error {
		if cordoned, left := d.closed(ctx); len(cordoned) != 1 || len(left) == 0 {
			return fmt.Errorf("cordoned %v, ours %v", cordoned, left)
		}
		return nil
	})
	if err := s.Client.Delete(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: d.name}}); err != nil {
		t.Fatal(err)
	}
	d.givenBack(ctx)
	s.eventually(ctx, t, func() error {
		var list topsv1.NodeUpgradeList
		if err := s.Client.List(ctx, &list); err != nil {
			return err
		}
		for _, u := range list.Items {
			if u.Spec.Operation != nil {
				return fmt.Errorf("%s is still asked for operation %s", u.Name, u.Spec.Operation.ID)
			}
		}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: d.name}, &topsv1.GcuResource{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the gr is still there"), err)
		}
		return nil
	})
}

// twoResources: two grs upgrade what each has of a node at the same time, on one node
// one after the other.
func (s *scenarios) twoResources(ctx context.Context, t *testing.T) {
	first := s.newHeavy(ctx, t, "first", soon(), "1/1", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "v1"}})
	second := s.newHeavy(ctx, t, "second", soon(), "2/2", topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{Version: "v1"}, Exporter: &topsv1.BaseFields{}})
	ended := first.endedOperations(ctx)
	first.upgrade(ctx, "v2")
	second.upgradeOf(ctx, "toolkit", "v2")
	for _, d := range []*drivers{first, second} {
		d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == scenarioNodes })
	}
	first.givenBack(ctx)
	if len(ended) != scenarioNodes {
		t.Errorf("%d nodes have a NodeUpgrade, want %d", len(ended), scenarioNodes)
	}
	for node, before := range ended {
		now := first.endedOperations(ctx)[node]
		rollouts := map[string]bool{}
		for _, record := range now[len(before):] {
			rollouts[record.Revision] = true
			if record.Phase != topsv1.OperationDone {
				t.Errorf("operation %s of %s: %s %s %s", record.ID, node, record.Phase, record.Reason, record.Message)
			}
		}
		if len(now)-len(before) != 2 || len(rollouts) != 2 {
			t.Errorf("%s had operations %+v, want one for each gr", node, now[len(before):])
		}
		for i, record := range now[len(before):] {
			if i > 0 && record.StartTime.Before(&now[len(before)].EndTime) {
				t.Errorf("the operations of %s were at work at the same time: %+v", node, now[len(before):])
			}
		}
	}
}

// endedOperations returns the history of every node.
func (d *drivers) endedOperations(ctx context.Context) map[string][]topsv1.OperationRecord {
	d.t.Helper()
	var list topsv1.NodeUpgradeList
	if err := d.Client.List(ctx, &list); err != nil {
		d.t.Fatal(err)
	}
	ended := map[string][]topsv1.OperationRecord{}
	for _, u := range list.Items {
		ended[u.Name] = u.Status.History
	}
	return ended
}
