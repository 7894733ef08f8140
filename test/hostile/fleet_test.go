package hostile

import (
	"context"
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// fleet is what people work with: a gr with its rollout, a node with an operation, one without a
// NodeUpgrade, and a DaemonSet outside of grs.
type fleet struct {
	gr      *topsv1.GcuResource
	rollout *topsv1.DaemonRollout
	upgrade *topsv1.NodeUpgrade
	set     *appsv1.DaemonSet
	plan    *topsv1.UpgradePlan
}

// anOperation is an order to a node.
const anOperation = `{"id":"o1","nodeUID":"u","targets":[{"component":"driver","daemonSet":{"namespace":"a","name":"b","uid":"c"},"revision":"r"}],"job":[["people_driver_verify"]]}`

func newFleet(t *testing.T, s *apiserver.Server) fleet {
	t.Helper()
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	f := fleet{
		gr: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "people", Annotations: map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}},
			Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{NotDeploy: true}}},
		rollout: &topsv1.DaemonRollout{ObjectMeta: inOperators("people"), Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "people"}}},
		set:     daemonSet("people", ""),
		plan:    planFor("people"),
	}
	f.set.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationUpgradePolicy: "people"}
	check(t, admin.Create(t.Context(), f.gr))
	check(t, applyManaged(t.Context(), admin, f.gr.Name)) // by the tool that deploys it
	check(t, admin.Create(t.Context(), f.set))
	check(t, applyMinReady(t.Context(), admin, f.set.Name))
	check(t, admin.Create(t.Context(), f.plan))
	check(t, manager.Create(t.Context(), f.rollout))
	f.rollout.Status = topsv1.DaemonRolloutStatus{Strategy: "OTA", Total: 2, FailedNodes: 1, Revision: "r"}
	check(t, manager.Status().Update(t.Context(), f.rollout))
	f.upgrade = addNode(t, s, "people")
	check(t, merge(t.Context(), manager, f.upgrade, `{"spec":{"operation":`+anOperation+`}}`))
	for _, name := range []string{"people-new", "people-later"} {
		check(t, admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return f
}

// edits are what only people with the right to update may do.
func (f fleet) edits(ctx context.Context, c client.Client) map[string]func() error {
	patch := func(o client.Object, data string) func() error {
		return func() error { return merge(ctx, c, o, data, client.DryRunAll) }
	}
	status := func(o client.Object, data string) func() error {
		return func() error {
			return c.Status().Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(data)), client.DryRunAll)
		}
	}
	edits := map[string]func() error{
		"edit the spec of a gr":                       patch(f.gr, `{"spec":{"gfd":{"notDeploy":false}}}`),
		"change an image":                             patch(f.gr, `{"spec":{"driver":{"image":"evil"}}}`),
		"edit the spec along with a pause":            patch(f.gr, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"true"}},"spec":{"gfd":{"notDeploy":false}}}`),
		"pause with a wrong value":                    patch(f.gr, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"maybe"}}}`),
		"write somebody else's annotation":            patch(f.gr, `{"metadata":{"annotations":{"example.com/owner":"me"}}}`),
		"label a gr":                                  patch(f.gr, `{"metadata":{"labels":{"a":"b"}}}`),
		"take the finalizer of a gr away":             patch(f.gr, `{"metadata":{"finalizers":["example.com/x"]}}`),
		"take fields from the tool that applies a gr": patch(f.gr, `{"metadata":{"managedFields":[{}]}}`),
		"give fields to the tool that applies a gr": patch(f.gr, `{"metadata":{"managedFields":[{"manager":"gitops","operation":"Apply","apiVersion":"topsops.enflame.com/v1","fieldsType":"FieldsV1",
			"fieldsV1":{"f:spec":{"f:gfd":{"f:notDeploy":{},"f:version":{}}}}}]}}`),
		"give an annotation to the tool that applies a gr": patch(f.gr, `{"metadata":{"managedFields":[{"manager":"gitops","operation":"Apply","apiVersion":"topsops.enflame.com/v1","fieldsType":"FieldsV1",
			"fieldsV1":{"f:metadata":{"f:annotations":{"f:topsops.enflame.com/upgrade-policy":{}}},"f:spec":{"f:gfd":{"f:notDeploy":{}}}}}]}}`),
		"give the finalizer to the tool that applies a gr": patch(f.gr, `{"metadata":{"managedFields":[{"manager":"gitops","operation":"Apply","apiVersion":"topsops.enflame.com/v1","fieldsType":"FieldsV1",
			"fieldsV1":{"f:metadata":{"f:finalizers":{".":{},"v:\"topsops.enflame.com/finalizer\"":{}}},"f:spec":{"f:gfd":{"f:notDeploy":{}}}}}]}}`),
		"take fields from the tool that applies a DaemonSet": patch(f.set, `{"metadata":{"managedFields":[{}]}}`),
		"own a gr":                                patch(f.gr, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"people","uid":"u"}]}}`),
		"annotate a rollout with a pause":         patch(f.rollout, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"true"}}}`),
		"order an operation":                      patch(f.upgrade, `{"spec":{"operation":{"id":"o2"}}}`),
		"abort an operation":                      patch(f.upgrade, `{"spec":{"operation":{"abort":true}}}`),
		"skip a task":                             patch(f.upgrade, `{"metadata":{"annotations":{"topsops.enflame.com/task-override":"skip:people_driver_verify"}}}`),
		"take an override back":                   patch(f.upgrade, `{"metadata":{"annotations":{"topsops.enflame.com/task-override":"undo:people_driver_verify"}}}`),
		"change the template of a DaemonSet":      patch(f.set, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`),
		"take the strategy of a DaemonSet away":   patch(f.set, `{"metadata":{"annotations":{"topsops.enflame.com/update-strategy":null}}}`),
		"write the status of a gr":                status(f.gr, `{"status":{"phase":"Running"}}`),
		"write the status of a rollout":           status(f.rollout, `{"status":{"failedNodes":0}}`),
		"write the status of a node":              status(f.upgrade, `{"status":{"tasks":null}}`),
		"create a plan":                           func() error { return c.Create(ctx, planFor("people-new"), client.DryRunAll) },
		"edit a plan":                             patch(f.plan, `{"spec":{"revision":"other"}}`),
		"annotate a plan":                         patch(f.plan, `{"metadata":{"annotations":{"a":"b"}}}`),
		"write the status of a plan":              status(f.plan, `{"status":{"done":1}}`),
		"delete a plan":                           func() error { return c.Delete(ctx, f.plan.DeepCopy(), client.DryRunAll) },
		"delete a gr":                             func() error { return c.Delete(ctx, f.gr.DeepCopy(), client.DryRunAll) },
		"create a NodeUpgrade with an operation":  func() error { return c.Create(ctx, ordered("people-new"), client.DryRunAll) },
		"create a NodeUpgrade with an override":   func() error { return c.Create(ctx, overridden("people-new"), client.DryRunAll) },
		"create a NodeUpgrade owned by another":   func() error { return c.Create(ctx, held("people-new", "people"), client.DryRunAll) },
		"create a NodeUpgrade that nothing holds": func() error { return c.Create(ctx, nodeUpgrade("people-new", "u"), client.DryRunAll) },
	}
	for _, name := range []string{topsv1.AnnotationRollbackTo, topsv1.AnnotationUpgradeOnly, topsv1.AnnotationUpgradePolicy, topsv1.AnnotationMaxUnavailable,
		topsv1.AnnotationUpdateStrategy, topsv1.OpenYurtAnnotationMaxUnavailable, topsv1.OpenYurtAnnotationUpdateStrategy, topsv1.AnnotationRolledBackTo,
		topsv1.AnnotationRecreation, topsv1.AnnotationResume, topsv1.AnnotationHold, topsv1.AnnotationUpgradePlan, topsv1.AnnotationAskedBy} {
		edits["annotate a gr with "+name] = patch(f.gr, `{"metadata":{"annotations":{"`+name+`":"x"}}}`)
	}
	return edits
}

// applyManaged applies the spec of the gr as a tool that deploys it would.
func applyManaged(ctx context.Context, c client.Client, name string) error {
	o := &unstructured.Unstructured{Object: object{"apiVersion": topsv1.GroupVersion.String(), "kind": topsv1.GcuResourceKind, "metadata": object{"name": name},
		"spec": object{"gfd": object{"notDeploy": true}}}}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("gitops"), client.ForceOwnership)
}

// applyMinReady applies a field of the DaemonSet as such a tool would.
func applyMinReady(ctx context.Context, c client.Client, name string) error {
	o := &unstructured.Unstructured{Object: object{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": object{"namespace": apiserver.Namespace, "name": name},
		"spec": object{"minReadySeconds": int64(1)}}}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("gitops"), client.ForceOwnership)
}

func planFor(name string) *topsv1.UpgradePlan {
	return &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.UpgradePlanSpec{GcuResource: "people", Revision: "r",
		Jobs:    []topsv1.PlannedJob{{Name: "gfd", Stages: []topsv1.PlannedStage{{"gfd_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "all", Jobs: []topsv1.PlannedNodes{{Job: "gfd", Nodes: []string{"people"}}}}}}}
}

func held(node, owner string) *topsv1.NodeUpgrade {
	u := nodeUpgrade(node, "u")
	u.OwnerReferences[0].Name = owner
	u.Annotations = map[string]string{topsv1.AnnotationHold: someTime}
	return u
}

func ordered(node string) *topsv1.NodeUpgrade {
	u := held(node, node)
	if err := json.Unmarshal([]byte(anOperation), &u.Spec.Operation); err != nil {
		panic(err)
	}
	return u
}

func overridden(node string) *topsv1.NodeUpgrade {
	u := held(node, node)
	u.Annotations[topsv1.AnnotationTaskOverride] = "retry:x"
	return u
}

// operations are the verbs of gcu-operate as patches; each is named by the verb it needs.
func (f fleet) operations(ctx context.Context, c client.Client) map[string]func() error {
	annotate := func(o client.Object, name, value string) func() error {
		return func() error {
			return merge(ctx, c, o, `{"metadata":{"annotations":{"topsops.enflame.com/`+name+`":`+value+`}}}`, client.DryRunAll)
		}
	}
	return map[string]func() error{
		"pause":    annotate(f.gr, "paused", `"true"`),
		"resume":   annotate(f.rollout, "resume", `"now"`),
		"approve":  annotate(f.rollout, "approved-waves", `"r/main"`),
		"hold":     annotate(f.upgrade, "hold", `"`+someTime+`"`),
		"retry":    annotate(f.upgrade, "task-override", `"retry:people_driver_verify"`),
		"pause ds": annotate(f.set, "paused", `"true"`),
	}
}
