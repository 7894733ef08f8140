package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// decided runs until the pod of a component is about to be deleted, and returns the observation and
// the effect.
func (s *stage) decided(component string) (*observation, operation.Effect) {
	s.t.Helper()
	for range 60 {
		s.now = s.now.Add(turnTime)
		s.world()
		o, err := s.r.observer.observe(s.ctx, s.node)
		s.must(err)
		d := s.machine.Next(o.facts)
		s.must(s.r.records.store(s.ctx, o, d))
		for _, e := range d.Effects {
			if e.Kind == operation.DeletePod && strings.HasPrefix(e.Pod.Name, strings.ToLower(component)) {
				return o, e
			}
		}
		s.must(client.IgnoreNotFound(s.r.effects.carryOut(s.ctx, o, d.Effects)))
	}
	s.t.Fatalf("the pod of %s is not deleted", component)
	return nil, operation.Effect{}
}

// TestAPodIsDeletedOnlyAsItWasSeen checks invariant S9 when the cluster changes between
// observation and deletion.
func TestAPodIsDeletedOnlyAsItWasSeen(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(s *stage)
		goes   bool
	}{
		{"nothing changed", func(*stage) {}, true},
		{"the DaemonSet replaces its pods by itself", func(s *stage) {
			ds := s.daemonSet(driver)
			ds.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
			s.must(s.admin.Update(s.ctx, ds))
		}, false},
		{"the DaemonSet has another template", func(s *stage) {
			ds := s.daemonSet(driver)
			ds.Spec.Template.Spec.Containers[0].Image = "driver:3"
			s.must(s.admin.Update(s.ctx, ds))
		}, false},
		{"the DaemonSet is another one of its name", func(s *stage) {
			ds := s.daemonSet(driver)
			s.must(s.admin.Delete(s.ctx, ds, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			s.must(client.IgnoreNotFound(s.admin.Patch(s.ctx, ds, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))))
			ds.ResourceVersion, ds.UID, ds.Finalizers = "", "", nil
			s.must(s.admin.Create(s.ctx, ds))
		}, false},
		{"the DaemonSet is gone", func(s *stage) {
			ds := s.daemonSet(driver)
			s.must(s.admin.Delete(s.ctx, ds, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}, false},
		{"somebody wrote to the pod", func(s *stage) {
			pod := s.podsOf(driver)[0]
			pod.Annotations = map[string]string{"n": "1"}
			s.must(s.admin.Update(s.ctx, &pod))
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t, driver, plugin)
			s.publish(driver, "v2")
			s.offer("op1", driver)
			o, e := s.decided(driver)
			tc.change(s)
			err := s.r.effects.carryOut(s.ctx, o, []operation.Effect{e})
			result, ended := resultOf(s.ctx, 0, err)
			if ended != nil || (err != nil && result.RequeueAfter == 0) {
				t.Errorf("it is to be looked at again, not an error: %v", err)
			}
			pods := s.podsOf(driver)
			if gone := len(pods) == 0 || pods[0].DeletionTimestamp != nil; gone != tc.goes {
				t.Errorf("the pod is gone: %v, want %v (%v)", gone, tc.goes, err)
			}
		})
	}
}

// behind is a cache that does not show the pods of a component yet, nor, if it is new, its DaemonSet.
type behind struct {
	client.Reader
	component string
	isNew     bool
}

func (c behind) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if _, ds := object.(*appsv1.DaemonSet); ds && c.isNew && key.Name == strings.ToLower(c.component) {
		return apierrors.NewNotFound(appsv1.Resource("daemonsets"), key.Name)
	}
	return c.Reader.Get(ctx, key, object, opts...)
}

func (c behind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Reader.List(ctx, list, opts...)
	if pods, is := list.(*corev1.PodList); is {
		pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Labels["app"] == c.component })
	}
	if sets, is := list.(*appsv1.DaemonSetList); is && c.isNew {
		sets.Items = slices.DeleteFunc(sets.Items, func(ds appsv1.DaemonSet) bool { return ds.Labels[topsv1.LabelComponent] == c.component })
	}
	if grs, is := list.(*topsv1.GcuResourceList); is && c.isNew {
		grs.Items = nil
	}
	return err
}

// TestTheDriverStaysForUsersThatTheCacheDoesNotShow: a pod of the device plugin that has just come
// is stopped before the driver goes.
func TestTheDriverStaysForUsersThatTheCacheDoesNotShow(t *testing.T) {
	for _, isNew := range []bool{false, true} {
		t.Run(fmt.Sprint("new ", isNew), func(t *testing.T) {
			s := newStage(t, driver, plugin)
			s.publish(driver, "v2")
			s.offer("op1", driver)
			s.r.observer.cache = behind{s.r.observer.cache, plugin, isNew}
			s.r.observer.ownership.Reader = s.r.observer.cache
			s.line.before = func(what string) error {
				if strings.HasPrefix(what, "delete *v1.Pod "+driver) && len(s.podsOf(plugin)) > 0 {
					t.Error("the driver's pod is deleted while the device plugin runs")
				}
				return nil
			}
			s.untilTask("driver_verify")
		})
	}
}

// TestAPodThatIsNotScheduledIsSeenWhileTheDeviceIsClosed: the API server does not know to which node it
// belongs. The message says that the pod waits, not that there is none.
func TestAPodThatIsNotScheduledIsSeenWhileTheDeviceIsClosed(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	o, e := s.decided(driver)
	s.must(s.r.effects.carryOut(s.ctx, o, []operation.Effect{e}))
	for _, pod := range s.podsOf(driver) {
		s.kill(&pod)
	}
	pod := s.podOf(driver)
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{s.node}}}}}}}}
	pod.Spec.NodeName = ""
	s.must(s.admin.Create(s.ctx, pod))
	o, err := s.r.observer.observe(s.ctx, s.node)
	s.must(err)
	if op := s.machine.Next(o.facts).Record.Operation; !strings.Contains(op.Message, pod.Name) {
		t.Errorf("the operation waits for %q, want for pod %s", op.Message, pod.Name)
	}
}

// TestADeletionInProgressIsFencedThoughTheCacheLags: a process is suspended before it deletes a pod,
// and another one, whose cache does not show that pod yet, ends the operation.
func TestADeletionInProgressIsFencedThoughTheCacheLags(t *testing.T) {
	for _, component := range []string{driver, plugin} {
		t.Run(component, func(t *testing.T) {
			s := newStage(t, driver, plugin)
			s.publish(driver, "v2")
			s.offer("op1", driver)
			o, e := s.decided(component)
			suspended := s.r
			s.start()
			s.r.observer.cache = behind{s.r.observer.cache, component, false}
			s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation = nil })
			if how := s.untilOver(); how != "Aborted Withdrawn" {
				t.Fatalf("it ends %s", how)
			}
			err := suspended.effects.carryOut(s.ctx, o, []operation.Effect{e})
			if pods := s.podsOf(component); len(pods) != 1 || pods[0].DeletionTimestamp != nil || !errors.Is(err, podreplace.ErrChanged) {
				t.Errorf("the pod is deleted after the operation is over: %v", err)
			}
		})
	}
}

func TestPodsOfOthersAreLeftAlone(t *testing.T) {
	s := newStage(t, driver, plugin)
	yes := true
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "stranger", Labels: map[string]string{"app": "stranger"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: driver, UID: "before", Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: s.node, Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	s.must(s.admin.Create(s.ctx, stranger))
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2")
	var pod corev1.Pod
	s.must(s.admin.Get(s.ctx, client.ObjectKeyFromObject(stranger), &pod))
	if pod.DeletionTimestamp != nil {
		t.Error("a pod of a DaemonSet of the same name and another UID was deleted")
	}
}

// TestATaintThatComesBetweenTwoComponents: the pod of the second one stays until a successor may
// come.
func TestATaintThatComesBetweenTwoComponents(t *testing.T) {
	s := newStage(t, driver, toolkit, plugin)
	s.publish(driver, "v2")
	s.publish(toolkit, "v2")
	s.offer("op1", driver, toolkit)
	s.untilTask("driver_verify")
	taint := func(change func([]corev1.Taint) []corev1.Taint) {
		node := s.readNode()
		before := node.DeepCopy()
		node.Spec.Taints = change(node.Spec.Taints)
		s.must(s.admin.Patch(s.ctx, node, client.MergeFrom(before)))
	}
	taint(func(all []corev1.Taint) []corev1.Taint {
		return append(all, corev1.Taint{Key: "repair", Effect: corev1.TaintEffectNoSchedule})
	})
	op := s.until("its wait", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonNoSuccessor })
	for range 3 {
		s.turn()
	}
	if s.created[toolkit] != 1 || !strings.Contains(op.Message, "/toolkit") || !strings.Contains(op.Message, "repair:NoSchedule") {
		t.Errorf("%d pods of the toolkit were made, and it says %q", s.created[toolkit], op.Message)
	}
	taint(func(all []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(all, func(t corev1.Taint) bool { return t.Key == "repair" })
	})
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2, toolkit v2")
}

// TestUsersOfTheDeviceOfAnotherGrAreStoppedToo: the exporter is no target.
func TestUsersOfTheDeviceOfAnotherGrAreStoppedToo(t *testing.T) {
	s := newStage(t, driver, plugin, exporter)
	s.publish(driver, "v2")
	nu := s.upgrade()
	all := s.components
	s.components = []string{driver, plugin}
	nu.Spec.Operation = s.operation("op1", driver)
	s.components = all
	quick(nu.Spec.Operation)
	s.must(s.admin.Update(s.ctx, nu))
	s.ends("Done Succeeded", "", "devicePlugin v1, driver v2, exporter v1")
	if s.created[exporter] != 2 {
		t.Errorf("the exporter was made %d times", s.created[exporter])
	}
}

// TestADeletionThatWasNotMadeIsFenced: the process dies between the record that names
// the pod and the deletion, and the operation is aborted.
func TestADeletionThatWasNotMadeIsFenced(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	o, e := s.decided(driver)
	s.start()
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Abort = true })
	s.ends("Aborted Aborted", "", "devicePlugin v1, driver v1")
	err := s.r.effects.carryOut(s.ctx, o, []operation.Effect{e})
	if !errors.Is(err, podreplace.ErrChanged) {
		t.Errorf("the deletion that was decided before: %v", err)
	}
	pods := s.podsOf(driver)
	fenced := slices.ContainsFunc(pods[0].Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == podreplace.Fenced })
	if len(pods) != 1 || pods[0].DeletionTimestamp != nil || !fenced {
		t.Errorf("the pod: %+v", pods)
	}
}

// orphan marks the node for an operation, like a process that dies right after.
func (s *stage) orphan(id string) {
	s.t.Helper()
	node := s.readNode()
	s.must(s.r.sweeper.cordoner.CarryOut(s.ctx, s.node, node.ResourceVersion, id, cordon.DecideCordon(cordon.FactsOf(node), id)))
	node = s.readNode()
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "other", Effect: corev1.TaintEffectPreferNoSchedule})
	s.must(s.r.sweeper.taints.set(s.ctx, node, id, operation.WithDriverTaint(node, id)))
}

func TestTheSweepReleasesLeftovers(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.orphan("gone")
	s.must(s.r.Sweep(s.ctx))
	if got := s.marks(); got != "" {
		t.Error(got)
	}
	if taints := s.readNode().Spec.Taints; !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == "other" }) {
		t.Errorf("taints of others: %v", taints)
	}
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.untilTask("driver_verify")
	s.must(s.r.Sweep(s.ctx))
	if got := s.marks(); got != "cordoned, by op1, closed for op1" {
		t.Errorf("those of an operation that is not over: %s", got)
	}
}

func TestANodeUpgradeThatIsDeletedLeavesNoMark(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.untilTask("driver_verify")
	s.must(s.admin.Delete(s.ctx, s.upgrade()))
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := s.marks(); got != "" {
		t.Error(got)
	}
}

// TestANodeThatChangesDuringItsSweepIsNoError: a node whose NodeUpgrade is gone is changed by another client just before its marks
// are taken away.
func TestANodeThatChangesDuringItsSweepIsNoError(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.untilTask("driver_verify")
	s.must(s.admin.Delete(s.ctx, s.upgrade()))
	once := false
	s.line.before = func(string) error {
		if !once {
			once = true
			node := s.readNode()
			node.Labels = map[string]string{"changed": "meanwhile"}
			s.must(s.admin.Update(s.ctx, node))
		}
		return nil
	}
	if result, err := s.reconcile(); err != nil || result.RequeueAfter == 0 {
		t.Fatalf("a conflict: %+v, %v", result, err)
	}
	if _, err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := s.marks(); got != "" {
		t.Error(got)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	s := newStage(t, driver)
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.line.dead = true
	if _, err := s.reconcile(); !errors.Is(err, errKilled) {
		t.Error(err)
	}
}

// An older CRD drops status.operation.held, and the agent's next report stores the record without it.
func TestAHeldNodeStaysClosedThoughAnOlderCRDDroppedThat(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.publish(driver, "v2")
	s.results = map[string]topsv1.HostTaskState{"driver_verify": topsv1.HostTaskFailed}
	s.offer("op1", driver)
	s.ends("Failed held VerifyFailed", "cordoned, by op1, closed for op1", "driver v2")
	nu := s.upgrade()
	nu.Status.Operation.Held = false
	s.must(s.admin.Status().Update(s.ctx, nu))
	s.start()
	s.must(s.r.Sweep(s.ctx))
	if got := s.marks(); got != "cordoned, by op1, closed for op1" {
		t.Errorf("after a sweep: %s", got)
	}
	s.turn()
	if op := s.upgrade().Status.Operation; !op.Held || s.marks() != "cordoned, by op1, closed for op1" {
		t.Errorf("after a pass: held %t, %s", op.Held, s.marks())
	}
	if n := s.countEvents("Warning Failed operation op1: VerifyFailed"); n != 1 {
		t.Errorf("events: %q", s.events.lines)
	}
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Abort = true })
	s.until("the abort", operation.Over)
	if got := s.marks(); got != "" {
		t.Errorf("after an abort: %s", got)
	}
}
