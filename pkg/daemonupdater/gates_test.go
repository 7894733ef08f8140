package daemonupdater

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/test/fixture"
)

// No other event need come of a pod that was gated just before the DaemonSet lost its strategy.
func TestAPodOfADaemonSetWithoutAStrategyLeavesTheGateAfterAFailure(t *testing.T) {
	for name, fault := range map[string]func(fails *int) interceptor.Funcs{
		"of its release": func(fails *int) interceptor.Funcs {
			return interceptor.Funcs{Patch: func(ctx context.Context, w client.WithWatch, object client.Object, p client.Patch, opts ...client.PatchOption) error {
				if *fails--; *fails >= 0 {
					return broken500
				}
				return w.Patch(ctx, object, p, opts...)
			}}
		},
		"of reading the group": func(fails *int) interceptor.Funcs {
			return interceptor.Funcs{List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if *fails--; *fails >= 0 {
					return broken500
				}
				return w.List(ctx, list, opts...)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationUpdateStrategy) })
			gated := fixture.PodOn(c.driver, "a", fixture.NewHash)
			gated.Name, gated.UID = "driver-gated", "uid-gated"
			gated.Spec = corev1.PodSpec{Affinity: affinityTo("a"), SchedulingGates: []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}}
			c.create(gated)
			fails := 1
			c.reconciler.Gate = func() gating.Mode { return gating.On }
			c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), fault(&fails))
			group := observed.GroupOf(c.driver)
			c.reconciler.changed.Add(group, "a")
			if _, err := c.reconciler.Reconcile(t.Context(), group); err == nil {
				t.Fatal("nothing failed")
			}
			if _, err := c.reconciler.Reconcile(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			var left corev1.Pod
			if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(gated), &left); err != nil || daemonset.AwaitsUpgrade(&left) {
				t.Errorf("it is still at the gate: %v, %v", left.Spec.SchedulingGates, err)
			}
		})
	}
}

// A pod that died cannot wait at the gate until somebody corrects an annotation.
func TestAPodComesBackThroughTheGateThoughASettingIsWrong(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "abc") })
	c.reconciler.Gate = func() gating.Mode { return gating.On }
	if err := c.api.Delete(t.Context(), fixture.PodOn(c.driver, "a", fixture.OldHash)); err != nil {
		t.Fatal(err)
	}
	gated := fixture.PodOn(c.driver, "a", fixture.NewHash)
	gated.Name, gated.UID = "driver-gated", "uid-gated"
	gated.Spec = corev1.PodSpec{Affinity: affinityTo("a"), SchedulingGates: []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}}
	c.create(gated)
	if after := c.mustReconcile(); after == retryStaleCache {
		t.Error("the cache is taken for stale")
	}
	var list corev1.PodList
	if err := c.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return daemonset.NodeName(&p) == "a" && !daemonset.AwaitsUpgrade(&p) }) {
		t.Error("node a has no pod that may run")
	}
}

// affinityTo is what the DaemonSet controller gives a pod that is for a node.
func affinityTo(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}
}

// The pass that finds a revision to be good decides by that: the earlier one would cost a node that joins another upgrade.
func TestANodeThatJoinsWhenARevisionIsFoundToBeGoodGetsIt(t *testing.T) {
	c := newCluster(t, unchanged)
	c.reconciler.Gate = func() gating.Mode { return gating.On }
	old := fixture.RevisionsOf(c.driver, fixture.OldHash)[0]
	old.Revision, old.Data.Raw = 1, templateData(c.driver, "app:old")
	c.update(old)
	key := observed.GroupOf(c.driver).RolloutKey("gcu-system")
	r := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "DaemonSet", Name: c.driver.Name}}}
	c.create(r)
	r.Status.LastKnownGood = fixture.GoodAt(simRevisionOf("kube-system/driver="+fixture.OldHash), fixture.OldHash)
	if err := c.api.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := c.api.Delete(t.Context(), fixture.PodOn(c.driver, name, fixture.OldHash)); err != nil {
			t.Fatal(err)
		}
		pod := fixture.PodOn(c.driver, name, fixture.NewHash)
		if name == "a" {
			pod.Spec = corev1.PodSpec{Affinity: affinityTo(name), SchedulingGates: []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}}
			pod.Status = corev1.PodStatus{}
		}
		c.create(pod)
	}
	joins := fixture.Node("a")
	joins.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := c.api.Status().Update(t.Context(), joins); err != nil {
		t.Fatal(err)
	}
	c.mustReconcile()
	if good := report.TargetIn(c.stored().Status.LastKnownGood.Targets, "kube-system/driver"); good != fixture.NewHash {
		t.Fatalf("%s is good", good)
	}
	var list corev1.PodList
	if err := c.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; daemonset.RevisionHash(pod) != fixture.NewHash || daemonset.AwaitsUpgrade(pod) {
			t.Errorf("pod %s has revision %s and gates %v", pod.Name, daemonset.RevisionHash(pod), pod.Spec.SchedulingGates)
		}
	}
}
