package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

// gr returns the gr of a scene.
func (s *scene) gr() (*topsv1.GcuResource, error) {
	var gr topsv1.GcuResource
	return &gr, s.api.Get(context.Background(), client.ObjectKey{Name: hero}, &gr)
}

// reject acts as the rollout of a gr whose newest spec failed: the one before is deployed in its place.
func reject(s *scene) error {
	gr, err := s.gr()
	if err != nil {
		return err
	}
	good, err := s.previous(gr)
	if err != nil {
		return err
	}
	current, err := revision.Name(gr)
	if err != nil {
		return err
	}
	return s.rollout(&topsv1.RolloutRollback{From: "r2", To: "r1", RejectedRevision: current, GcuResourceRevision: good,
		Message: "2 of 2 started nodes failed", Time: metav1.NewTime(world.Noon)})
}

// previous returns the revision that a person gets who asks for the previous one.
func (s *scene) previous(gr *topsv1.GcuResource) (string, error) {
	var list appsv1.ControllerRevisionList
	if err := s.api.List(context.Background(), &list, client.InNamespace(revisionNamespace), client.MatchingLabels{topsv1.LabelGcuResource: hero}); err != nil {
		return "", err
	}
	h, err := revision.NewHistory(gr, list.Items)
	if err != nil {
		return "", err
	}
	good, failure := h.Target(topsv1.RollbackToPrevious)
	if failure != nil {
		return "", errors.New(failure.Message)
	}
	return good.Name, nil
}

// rollout stores what the rollout of the gr remembers.
func (s *scene) rollout(rb *topsv1.RolloutRollback) error {
	gr, err := s.gr()
	if err != nil {
		return err
	}
	ctx := context.Background()
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: revisionNamespace, Name: hero,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(gr, topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))}},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: hero}}}
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(dro), dro); err != nil {
		if err := s.api.Create(ctx, dro); err != nil {
			return err
		}
	}
	before := dro.DeepCopy()
	dro.Status.Rollback = rb
	return s.api.Status().Patch(ctx, dro, client.MergeFrom(before))
}

// shows compares what is deployed with what it is to be: the image and the revision of the driver, and the
// first condition of the gr.
func (s *scene) shows(t *testing.T, image, inPlaceOf, condition string) *topsv1.GcuResource {
	t.Helper()
	if err := s.goOn(nil); err != nil {
		t.Fatal(err)
	}
	var ds appsv1.DaemonSet
	gr, err := s.gr()
	if err := errors.Join(err, s.api.Get(context.Background(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-driver"}, &ds)); err != nil {
		t.Fatal(err)
	}
	if got := ds.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(got, image) || ds.Annotations[topsv1.AnnotationRejectedRevision] != inPlaceOf {
		t.Errorf("image %s in place of %q, want %s in place of %q", got, ds.Annotations[topsv1.AnnotationRejectedRevision], image, inPlaceOf)
	}
	c := gr.Status.Conditions[0]
	if got := c.Action + " " + c.Reason; got != condition {
		t.Errorf("the first condition is %q, want %q: %s", got, condition, c.Message)
	}
	return gr
}

// The spec that failed stays in the gr, whoever applies it again; what is deployed is the good one.
func TestARejectedSpecIsNotDeployed(t *testing.T) {
	s := inMemory(t)
	st := story{steps: []func(*scene) error{deployAll, func(s *scene) error {
		return s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Driver.Version = "v2" })
	}}}
	if err := st.play(s); err != nil {
		t.Fatal(err)
	}
	before := s.shows(t, ":v2", "", "deploy success")
	bad, err := revision.Name(before)
	if err := errors.Join(err, reject(s)); err != nil {
		t.Fatal(err)
	}
	const rejected = "Stalled RevisionRejected"
	gr := s.shows(t, before.Spec.Exporter.Version, bad, rejected)
	if gr.Spec.Driver.Version != "v2" || gr.Generation != before.Generation || gr.Status.ObservedGeneration != gr.Generation {
		t.Errorf("the spec was changed: driver %s, generation %d", gr.Spec.Driver.Version, gr.Generation)
	}
	if c := world.Standard(gr.Status, status.ConditionDegraded); !strings.HasPrefix(c, fmt.Sprintf("True RevisionRejected: revision %s of the spec is rejected, ", bad)) {
		t.Errorf("Degraded is %q", c)
	}
	if c := world.Action(gr.Status, "rollback"); c.Status != "success" {
		t.Errorf("rollback is %+v", c)
	}
	s.restart()
	s.shows(t, before.Spec.Exporter.Version, bad, rejected)

	if err := s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Driver.Version = "v3" }); err != nil {
		t.Fatal(err)
	}
	gr = s.shows(t, ":v3", "", "deploy success")
	if previous, err := s.previous(gr); err != nil || previous == bad {
		t.Errorf("the previous spec is %s, %v, want the one that was deployed and not the rejected one", previous, err)
	}
	if err := s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Driver.Version = "v2" }); err != nil {
		t.Fatal(err)
	}
	s.shows(t, before.Spec.Exporter.Version, bad, rejected) // until the rollout forgets it
	if err := s.rollout(nil); err != nil {
		t.Fatal(err)
	}
	s.shows(t, ":v2", "", "deploy success")
}

// What bounds the specs of people bounds what is deployed in place of a rejected one: the good revision may be older than the
// bounds.
func TestARevisionOutOfBoundsIsNotDeployedInPlaceOfARejectedOne(t *testing.T) {
	s := inMemory(t)
	st := story{steps: []func(*scene) error{deployAll, func(s *scene) error {
		return s.edit(func(gr *topsv1.GcuResource) { gr.Spec.Driver.Version = "v2" })
	}}}
	if err := st.play(s); err != nil {
		t.Fatal(err)
	}
	before := s.shows(t, ":v2", "", "deploy success")
	if err := reject(s); err != nil {
		t.Fatal(err)
	}
	api := s.api.(*memoryAPI)
	api.refusal = apierrors.NewForbidden(schema.GroupResource{Resource: "gcuresources"}, hero, errors.New("the repository is out of bounds"))
	if err := s.goOn(nil); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not accepted any more: apply another spec, or resume") {
		t.Errorf("a revision out of bounds is deployed: %v", err)
	}
	var ds appsv1.DaemonSet
	if err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-driver"}, &ds); err != nil || !strings.HasSuffix(ds.Spec.Template.Spec.Containers[0].Image, ":v2") {
		t.Errorf("the driver is %s: %v", ds.Spec.Template.Spec.Containers[0].Image, err)
	}
	bad, err := revision.Name(before)
	if err != nil {
		t.Fatal(err)
	}
	api.refusal = nil
	s.shows(t, before.Spec.Exporter.Version, bad, "Stalled RevisionRejected")
}

// Labels of nodes follow the spec that is deployed.
func TestLabelsFollowTheSpecInPlaceOfARejectedOne(t *testing.T) {
	s := inMemory(t)
	shares := func(s *scene) error {
		return s.edit(func(gr *topsv1.GcuResource) {
			gr.Spec.DevicePlugin, gr.Spec.GcusharePlugin = nil, &topsv1.GcusharePluginSpec{}
		})
	}
	if err := (story{steps: []func(*scene) error{deployAll, shares}}).play(s); err != nil {
		t.Fatal(err)
	}
	label := func() string {
		var node corev1.Node
		if err := errors.Join(s.goOn(nil), s.api.Get(context.Background(), client.ObjectKey{Name: "node-1"}, &node)); err != nil {
			t.Fatal(err)
		}
		return node.Labels[topsv1.LabelGcushare]
	}
	if label() == "" {
		t.Fatal("a gr with gcusharePlugin sets no label")
	}
	if err := reject(s); err != nil {
		t.Fatal(err)
	}
	if got := label(); got != "" {
		t.Errorf("the label of a rejected spec is %q", got)
	}
}

// A rollout of a gr that is gone says nothing about the next one of its name.
func TestARejectionEndsWithItsGcuResource(t *testing.T) {
	s := inMemory(t)
	if err := (story{steps: []func(*scene) error{deployAll, upgradeAll, reject}}).play(s); err != nil {
		t.Fatal(err)
	}
	gr, err := s.gr()
	if err != nil {
		t.Fatal(err)
	}
	gr.UID = "another"
	keeper := revisionKeeper{s.api, s.api, revisionNamespace}
	if as, rejected, err := keeper.inForce(context.Background(), keeper.Client, gr); err != nil || rejected != nil || as.Spec.Driver.Version != "v2" {
		t.Errorf("driver %s, %+v, %v", as.Spec.Driver.Version, rejected, err)
	}
}

// A rollback that admission denies is reported like one that the schema refuses: the gr is reconciled on as it is.
func TestARollbackThatAdmissionDeniesIsReported(t *testing.T) {
	gr := schema.GroupResource{Resource: "gcuresources"}
	for name, denial := range map[string]*apierrors.StatusError{
		"forbidden": apierrors.NewForbidden(gr, hero, errors.New("out of bounds")),
		"a webhook with a code of its own": {ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400, Reason: metav1.StatusReasonBadRequest,
			Message: `admission webhook "no.example.com" denied the request: out of bounds`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			upgraded := func(s *scene) error { return s.goOn(nil) }
			if err := (story{steps: []func(*scene) error{deployAll, upgradeAll, upgraded}}).play(s); err != nil {
				t.Fatal(err)
			}
			s.operator = interceptor.NewClient(s.operator, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if _, is := o.(*topsv1.GcuResource); is && o.GetAnnotations()[topsv1.AnnotationRolledBackTo] != "" {
					return denial
				}
				return c.Patch(ctx, o, p, opts...)
			}})
			s.restart()
			if err := errors.Join(s.edit(rollBackTo(topsv1.RollbackToPrevious)), s.turn(), s.turn()); err != nil {
				t.Fatal(err)
			}
			now, err := s.gr()
			if err != nil {
				t.Fatal(err)
			}
			if c := world.Action(now.Status, "rollback"); c.Status != "failed" || c.Reason != revision.ReasonRefusedRevision || !strings.Contains(c.Message, "out of bounds") {
				t.Errorf("rollback is %+v", c)
			}
			if now.Spec.Driver.Version != "v2" || world.Action(now.Status, "deploy").Status != "success" {
				t.Errorf("driver %s, %+v", now.Spec.Driver.Version, now.Status.Conditions)
			}
		})
	}
}

// The deletion of another gr leaves nodes the labels of the spec that is deployed.
func TestLabelsInPlaceOfARejectedSpecOutliveAnotherGcuResource(t *testing.T) {
	s := inMemory(t)
	on := func(node string) func(*scene) error {
		return func(s *scene) error {
			return errors.Join(s.goOn(nil), s.edit(func(gr *topsv1.GcuResource) {
				gr.Spec.DevicePlugin, gr.Spec.GcusharePlugin = nil, &topsv1.GcusharePluginSpec{GcushareNodes: []string{node}}
			}))
		}
	}
	ctx := context.Background()
	other := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	another := func(pass func() error) error {
		_, err := s.gcu.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		return errors.Join(err, pass())
	}
	if err := (story{steps: []func(*scene) error{deployAll, on("node-1"), on("node-2"), reject}}).play(s); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.goOn(nil), s.api.Create(ctx, other), another(s.label), s.api.Delete(ctx, other)); err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := another(func() error { return s.api.Get(ctx, client.ObjectKey{Name: "node-1"}, &node) }); err != nil || node.Labels[topsv1.LabelGcushare] == "" {
		t.Errorf("the labels are %v, %v", node.Labels, err)
	}
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(other), other); !apierrors.IsNotFound(err) {
		t.Errorf("the other gr is not gone: %v", err)
	}
}

// A gr whose spec in force cannot be read keeps the labels that its pods may need, and no other gr from being labeled or deleted.
func TestAGrWhoseSpecInForceIsUnknownHoldsUpNoOther(t *testing.T) {
	s := inMemory(t)
	shares := func(s *scene) error {
		return errors.Join(s.goOn(nil), s.edit(func(gr *topsv1.GcuResource) {
			gr.Spec.DevicePlugin, gr.Spec.GcusharePlugin = nil, &topsv1.GcusharePluginSpec{}
		}))
	}
	unshares := func(s *scene) error {
		return errors.Join(s.goOn(nil), s.edit(func(gr *topsv1.GcuResource) { gr.Spec.GcusharePlugin = nil }))
	}
	if err := (story{steps: []func(*scene) error{deployAll, shares, unshares, reject}}).play(s); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	gr, err := s.gr()
	if err != nil {
		t.Fatal(err)
	}
	good, err := s.previous(gr)
	lost := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: revisionNamespace, Name: good}}
	other := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
	bare := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+topsv1.LabelGcuPresent+`":null}}}`))
	if err := errors.Join(err, s.goOn(nil), s.api.Delete(ctx, lost), s.api.Create(ctx, other), s.api.Patch(ctx, node, bare)); err != nil {
		t.Fatal(err)
	}
	pass := func() error {
		_, err := s.gcu.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(other)})
		return err
	}
	if err := s.label(); err == nil || !strings.Contains(err.Error(), "GcuResource "+hero+": revision "+good) {
		t.Errorf("the labeler says nothing of the gr: %v", err)
	}
	if err := errors.Join(pass(), s.api.Delete(ctx, other), pass()); err != nil {
		t.Fatal(err)
	}
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(other), other); !apierrors.IsNotFound(err) {
		t.Errorf("the other gr is not gone: %v", err)
	}
	for _, name := range sceneNodes {
		if err := s.api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil || node.Labels[topsv1.LabelGcuPresent] == "" || node.Labels[topsv1.LabelGcushare] == "" {
			t.Errorf("%s has the labels %v, %v", name, node.Labels, err)
		}
	}
}
