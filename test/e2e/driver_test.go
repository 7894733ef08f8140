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
	*stage
	t    *testing.T
	name string
}

// newDrivers deploys a gr with a driver, a device plugin and gfd, upgraded node by node
// under a policy.
func (s *stage) newDrivers(ctx context.Context, t *testing.T, name string, policy topsv1.UpgradePolicySpec) *drivers {
	t.Helper()
	gr := s.name(name)
	return s.newHeavy(ctx, t, name, policy, "3/3", topsv1.GcuResourceSpec{Driver: s.component(gr+"-driver", "v1"),
		DevicePlugin: s.component(gr+"-plugin", "v1"), GFD: s.component(gr+"-gfd", "v1")})
}

// component returns a component on the nodes of the stage. Only one story may use the
// exporter: its Service has the same node port in every gr.
func (s *stage) component(name, version string) *topsv1.BaseFields {
	return &topsv1.BaseFields{Name: name, Version: version, NodeSelector: s.selector()}
}

// newHeavy deploys a gr, upgraded node by node under a policy.
func (s *stage) newHeavy(ctx context.Context, t *testing.T, name string, policy topsv1.UpgradePolicySpec, ready string, spec topsv1.GcuResourceSpec) *drivers {
	t.Helper()
	s.policy(ctx, t, name, policy)
	annotations := s.underPolicy(name)
	annotations[topsv1.AnnotationMaxUnavailable] = "1"
	s.create(ctx, t, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: s.name(name), Annotations: annotations}, Spec: spec})
	s.shows(ctx, t, s.name(name), "deployed", func(gr *topsv1.GcuResource) bool {
		return gr.Status.Phase == topsv1.PhaseRunning && gr.Status.ReadyResource == ready
	})
	return &drivers{stage: s, t: t, name: s.name(name)}
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
	d.reaches(ctx, "started", func(r *topsv1.DaemonRolloutStatus) bool { return r.Revision != before && !complete(r) })
}

// reaches waits until is returns true for the status of the rollout.
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

// training starts pods that use GCUs, with a PodDisruptionBudget of minAvailable; all on one node, if
// one is given.
func (d *drivers) training(ctx context.Context, replicas, minAvailable int32, node ...string) {
	d.t.Helper()
	where := d.selector()
	for _, name := range node {
		where[corev1.LabelHostname] = name
	}
	labels := map[string]string{"app": d.name + "-training"}
	meta := metav1.ObjectMeta{Namespace: "default", Name: d.name + "-training"}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: where,
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

// givenBack waits until only the given nodes are cordoned, and no mark of the operator
// is left.
func (d *drivers) givenBack(ctx context.Context, but ...string) {
	d.t.Helper()
	d.eventually(ctx, d.t, func() error {
		if cordoned, left := d.closed(ctx, d.t); !slices.Equal(cordoned, but) || len(left) > 0 {
			return fmt.Errorf("cordoned %v, want %v; left %v", cordoned, but, left)
		}
		return nil
	})
}

// soon returns a policy without waiting times.
func soon() topsv1.UpgradePolicySpec {
	return topsv1.UpgradePolicySpec{Validation: &topsv1.ValidationPolicy{SoakSeconds: 1}}
}

// isCurrentWhenDone waits until a gr is current for tools that follow kstatus, as they wait for it, and fails if its rollout is
// not complete then: the last node has its newest pods before it is verified and given back.
func (d *drivers) isCurrentWhenDone(ctx context.Context) {
	d.t.Helper()
	d.shows(ctx, d.t, d.name, "current", func(gr *topsv1.GcuResource) bool {
		return gr.Status.ObservedGeneration == gr.Generation && !slices.ContainsFunc(gr.Status.Conditions, func(c topsv1.ActionCondition) bool {
			return c.Type == topsv1.ConditionReconciling || c.Type == topsv1.ConditionStalled
		})
	})
	var r topsv1.DaemonRollout
	if err := d.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: d.name}, &r); err != nil {
		d.t.Fatal(err)
	}
	if !complete(&r.Status) {
		d.t.Errorf("the gr is current while its rollout is %+v", r.Status)
	}
}

// Pods that use GCUs are evicted from each node, then the driver is replaced, and then
// all pods that use the device. A node cordoned by a person stays cordoned.
func TestADriverIsUpgradedOnEmptiedNodes(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	d := s.newDrivers(ctx, t, "drivers", soon())
	d.training(ctx, 3, 2)
	before := d.podsByNode(ctx, "app", d.name+"-training")
	foreign := s.nodes[1]
	s.kubectl(ctx, t, "cordon", foreign)
	t.Cleanup(func() { s.kubectl(context.WithoutCancel(ctx), t, "uncordon", foreign) })
	d.upgrade(ctx, "v2")
	d.isCurrentWhenDone(ctx)
	d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool {
		return complete(r) && r.Updated == stageNodes && r.Total == stageNodes
	})
	d.givenBack(ctx, foreign)

	drivers, plugins := d.podsByNode(ctx, "app.kubernetes.io/name", d.name+"-driver"), d.podsByNode(ctx, "app.kubernetes.io/name", d.name+"-plugin")
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
			t.Errorf("training pod %s was not evicted from %s", pod.Name, pod.Spec.NodeName)
		}
	}
}

func hasTag(image, tag string) bool { return strings.HasSuffix(image, ":"+tag) }

// hasHistory checks the record of the only operation of a NodeUpgrade.
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

// A node whose pods cannot be evicted is deferred with the name of the
// PodDisruptionBudget before it is touched; the other nodes are upgraded.
func TestANodeThatCannotBeEmptiedIsPutOff(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	d := s.newDrivers(ctx, t, "refused", soon())
	d.training(ctx, 2, 2)
	stays := d.podsByNode(ctx, "app", d.name+"-training")
	d.upgrade(ctx, "v2")
	d.reaches(ctx, "done on the other nodes", func(r *topsv1.DaemonRolloutStatus) bool {
		return r.Updated == stageNodes-2 && r.InFlightNodes == 0 && slices.ContainsFunc(r.Waiting, func(w topsv1.WaitingNote) bool {
			return w.Reason == "Deferred" && w.Nodes == 2 && strings.Contains(w.Message, "PrecheckFailed") &&
				strings.Contains(w.Message, "PodDisruptionBudget default/"+d.name+"-training refuses")
		})
	})
	d.givenBack(ctx)
	for node, pod := range d.podsByNode(ctx, "app", d.name+"-training") {
		if stays[node].UID != pod.UID {
			t.Errorf("training pod %s was replaced", pod.Name)
		}
	}
}

// If a gr is deleted during an operation, its node is uncordoned.
func TestAGcuResourceDeletedHalfWayLeavesNoNodeCordoned(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	policy := soon()
	policy.Validation.SoakSeconds = 600
	d := s.newDrivers(ctx, t, "half-way", policy)
	d.upgrade(ctx, "v2")
	s.eventually(ctx, t, func() error {
		if cordoned, left := d.closed(ctx, d.t); len(cordoned) != 1 || len(left) == 0 {
			return fmt.Errorf("cordoned %v, ours %v", cordoned, left)
		}
		return nil
	})
	if err := s.Client.Delete(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: d.name}}); err != nil {
		t.Fatal(err)
	}
	d.givenBack(ctx)
	s.eventually(ctx, t, func() error {
		for _, u := range s.upgrades(ctx, t) {
			if u.Spec.Operation != nil {
				return fmt.Errorf("%s still has operation %s in its spec", u.Name, u.Spec.Operation.ID)
			}
		}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: d.name}, &topsv1.GcuResource{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the gr is still there"), err)
		}
		return nil
	})
}

// A node that leaves the group during its operation is returned to service, and another node
// gets its slot.
func TestANodeThatLeavesDuringItsOperationIsReturnedToService(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	policy := soon()
	policy.Validation.SoakSeconds = 600
	d := s.newDrivers(ctx, t, "leaving", policy)
	d.upgrade(ctx, "v2")
	var leaves string
	s.eventually(ctx, t, func() error {
		cordoned, marks := s.closed(ctx, t)
		if len(cordoned) != 1 || len(marks) == 0 {
			return fmt.Errorf("cordoned %v, ours %v", cordoned, marks)
		}
		leaves = cordoned[0]
		return nil
	})
	s.kubectl(ctx, t, "label", "--overwrite", "node", leaves, stageLabel+"=elsewhere")
	t.Cleanup(func() {
		s.kubectl(context.WithoutCancel(ctx), t, "label", "--overwrite", "node", leaves, stageLabel+"="+s.label)
	})
	s.eventually(ctx, t, func() error {
		cordoned, marks := s.closed(ctx, t)
		ofIt := func(mark string) bool { return strings.HasPrefix(mark, leaves+" ") }
		if len(cordoned) != 1 || cordoned[0] == leaves || slices.ContainsFunc(marks, ofIt) {
			return fmt.Errorf("%s left: cordoned %v, ours %v", leaves, cordoned, marks)
		}
		return nil
	})
}

// Two grs with components on the same nodes are upgraded at the same time; their
// operations on a node run one after the other.
func TestTwoGcuResourcesUpgradeOneNodeOneAfterTheOther(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	first := s.newHeavy(ctx, t, "first", soon(), "1/1", topsv1.GcuResourceSpec{Driver: s.component(s.name("first")+"-driver", "v1")})
	second := s.newHeavy(ctx, t, "second", soon(), "2/2", topsv1.GcuResourceSpec{Toolkit: s.component(s.name("second")+"-toolkit", "v1"), GFD: s.component(s.name("second")+"-gfd", "v1")})
	ended := first.endedOperations(ctx)
	first.upgrade(ctx, "v2")
	second.upgradeOf(ctx, "toolkit", "v2")
	for _, d := range []*drivers{first, second} {
		d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })
	}
	first.givenBack(ctx)
	if len(ended) != stageNodes {
		t.Errorf("%d nodes have a NodeUpgrade, want %d", len(ended), stageNodes)
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
				t.Errorf("the operations of %s overlapped: %+v", node, now[len(before):])
			}
		}
	}
}

// endedOperations returns the history of every node.
func (d *drivers) endedOperations(ctx context.Context) map[string][]topsv1.OperationRecord {
	d.t.Helper()
	ended := map[string][]topsv1.OperationRecord{}
	for _, u := range d.upgrades(ctx, d.t) {
		ended[u.Name] = u.Status.History
	}
	return ended
}

// upgrades returns the NodeUpgrades of the stage.
func (s *stage) upgrades(ctx context.Context, t *testing.T) []topsv1.NodeUpgrade {
	t.Helper()
	var list topsv1.NodeUpgradeList
	if err := s.Client.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(u topsv1.NodeUpgrade) bool { return !slices.Contains(s.nodes, u.Name) })
}
