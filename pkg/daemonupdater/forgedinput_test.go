package daemonupdater

import (
	"context"
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

// TestABadRequestIsRefusedAndOthersGoOn: node a asks for what is not its pod, node b for its own.
func TestABadRequestIsRefusedAndOthersGoOn(t *testing.T) {
	for name, bad := range map[string]func(*topsv1.UpgradeRequest){
		"a malformed pod name":    func(r *topsv1.UpgradeRequest) { r.Pod.Name = "a/b" },
		"a malformed namespace":   func(r *topsv1.UpgradeRequest) { r.Pod.Namespace = "../a" },
		"no pod name":             func(r *topsv1.UpgradeRequest) { r.Pod.Name = "" },
		"the pod of another node": func(*topsv1.UpgradeRequest) {},
		"the pod of another creator": func(r *topsv1.UpgradeRequest) {
			r.Pod = topsv1.NamespacedRef{Namespace: "kube-system", Name: "bare", UID: "uid-bare"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, underOTA)
			c.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bare", UID: "uid-bare"}, Spec: corev1.PodSpec{NodeName: "a"}})
			c.rejectMalformedNames()
			request := fixture.Request("1", c.driver, fixture.PodOn(c.driver, "c", fixture.OldHash))
			bad(&request)
			c.create(fixture.NodeUpgrade("a", request))
			c.create(fixture.NodeUpgrade("b", fixture.Request("2", c.driver, fixture.PodOn(c.driver, "b", fixture.OldHash))))
			if after := c.mustReconcile(); after == retryStaleCache {
				t.Errorf("decides again after %s", after)
			}
			if got := c.answered("a"); got != topsv1.TaskFailed {
				t.Errorf("the bad request is %q, want %s", got, topsv1.TaskFailed)
			}
			if got := c.answered("b"); got == "" || len(c.deletions) != 1 {
				t.Errorf("the other request is %q, deleted %v; want one pod", got, c.deletions)
			}
		})
	}
}

// rejectMalformedNames makes live reads fail like those of the real client.
func (c *cluster) rejectMalformedNames() {
	c.live(interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
		if key.Name == "a/b" || key.Name == "" || key.Namespace == "../a" {
			return apierrors.NewBadRequest("invalid resource name")
		}
		return w.Get(ctx, key, object, opts...)
	}})
}

// TestANodeUpgradeThatCannotBeWrittenFailsNoPass: an object from before a bound of the schema.
func TestANodeUpgradeThatCannotBeWrittenFailsNoPass(t *testing.T) {
	c := newCluster(t, underOTA)
	for _, node := range []string{"a", "b"} {
		c.create(fixture.NodeUpgrade(node, fixture.Request("1", c.driver, fixture.PodOn(c.driver, node, fixture.OldHash))))
	}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: topsv1.GroupVersion.Group, Kind: "NodeUpgrade"}, "a", nil)
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, ok := o.(*topsv1.NodeUpgrade); ok && o.GetName() == "a" {
				return invalid
			}
			return w.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	c.mustReconcile()
	if c.answered("b") == "" {
		t.Error("the request of the other node has no answer")
	}
}

func TestInventedDaemonSetsAreAnsweredInThePassOfTheirNode(t *testing.T) {
	c := newCluster(t, unchanged)
	var requests []topsv1.UpgradeRequest
	for _, name := range []string{"x", "y"} {
		requests = append(requests, fixture.Request(name, fixture.DaemonSet(name), fixture.PodOn(c.driver, "a", fixture.OldHash)))
	}
	c.create(fixture.NodeUpgrade("a", append(requests, fixture.Request("1", c.driver, fixture.PodOn(c.driver, "a", fixture.OldHash)))...))
	if _, err := c.reconciler.Reconcile(t.Context(), observed.Group{Kind: observed.KindNode, Name: "a"}); err != nil {
		t.Fatal(err)
	}
	var u topsv1.NodeUpgrade
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "a"}, &u); err != nil {
		t.Fatal(err)
	}
	if len(u.Status.Tasks) != 2 || u.Status.Tasks[0].State != topsv1.TaskFailed || u.Status.Tasks[1].State != topsv1.TaskFailed {
		t.Errorf("tasks %+v, want the two invented ones to have failed", u.Status.Tasks)
	}
}

// TestAForgedMemberChangesNothing: a DaemonSet with the labels of the gr would pause its rollout. It has
// another UID of its owner, or the very UID, where no policy bounds who sets it, and a namespace or name
// that neither the gr nor a kept spec of it gives.
func TestAForgedMemberChangesNothing(t *testing.T) {
	for name, forge := range map[string]func(*appsv1.DaemonSet){
		"with an invented UID of the gr":      func(ds *appsv1.DaemonSet) { ds.Namespace, ds.OwnerReferences[0].UID = "tenant", "uid-invented" },
		"in the namespace of a tenant":        func(ds *appsv1.DaemonSet) { ds.Namespace, ds.Name = "tenant", "driver" },
		"under a name that the gr never gave": func(ds *appsv1.DaemonSet) { ds.Name = "forged" },
		"under a name that another gr's has":  func(ds *appsv1.DaemonSet) { ds.Namespace, ds.Name = "tenant", "of-another" },
		"that leaves, so that no spec names it": func(ds *appsv1.DaemonSet) {
			ds.Namespace = "tenant"
			ds.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, ofAGr)
			c.create(keptSpec("uid-another", types.NamespacedName{Namespace: "tenant", Name: "of-another"}))
			forged := fixture.Annotate(fixture.OfGcuResource(fixture.DaemonSet("forged")), topsv1.AnnotationPaused, "true")
			forge(forged)
			c.create(forged)
			c.mustReconcile()
			if len(c.deletions) != 1 {
				t.Errorf("deleted %v, the others wait for %q; want one pod", c.deletions, c.waitsFor())
			}
		})
	}
}

// TestAMemberMayHaveTheNameOfAKeptSpec: a DaemonSet that leaves has a name that the current spec does not
// give. The kept one that does may be newer than the cache.
func TestAMemberMayHaveTheNameOfAKeptSpec(t *testing.T) {
	for name, cached := range map[string]bool{"in the cache": true, "newer than the cache": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, ofAGr)
			c.create(keptSpec("uid-fleet", client.ObjectKeyFromObject(c.driver), types.NamespacedName{Namespace: "apps", Name: "earlier"}))
			if !cached {
				c.staleRevision = "fleet-1"
			}
			earlier := fixture.Annotate(fixture.OfGcuResource(fixture.DaemonSet("earlier")), topsv1.AnnotationPaused, "true")
			earlier.Namespace = "apps"
			c.create(earlier)
			c.mustReconcile()
			if got := c.waitsFor(); len(c.deletions) != 0 || got != "Blocked" {
				t.Errorf("deleted %v, nodes wait for %q; want that a member with other settings blocks its group", c.deletions, got)
			}
		})
	}
}

// keptSpec is a kept spec of the gr "fleet", or of one of that name, that gives DaemonSets their names.
func keptSpec(owner types.UID, sets ...types.NamespacedName) *appsv1.ControllerRevision {
	data, _ := json.Marshal(map[string]any{"spec": fixture.SpecNaming(sets...)})
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "fleet-1", Labels: map[string]string{topsv1.LabelGcuResource: "fleet"},
		OwnerReferences: fixture.ControlledBy("topsops.enflame.com/v1", "GcuResource", "fleet", owner)}, Data: runtime.RawExtension{Raw: data}}
}
