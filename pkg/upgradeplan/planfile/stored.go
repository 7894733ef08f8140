package planfile

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// For returns an error unless the plan is for the gr of this name.
func (p *Plan) For(gr string) error {
	if of := p.Object.Spec.GcuResource; of != gr {
		return fmt.Errorf("the plan is for gr %s, not %s", of, gr)
	}
	return nil
}

// Current is what a plan is about to change: the gr, and the stored UpgradePlan of the same name, nil for none.
type Current struct {
	Gr     *topsv1.GcuResource
	Stored *topsv1.UpgradePlan
}

// Unchanged reports whether a gr still has the spec and the limit of its upgrade that it had before, and still follows the
// same plan.
func Unchanged(before, now metav1.Object) bool {
	was, is := before.GetAnnotations(), now.GetAnnotations()
	return now.GetUID() == before.GetUID() && now.GetGeneration() == before.GetGeneration() &&
		was[topsv1.AnnotationUpgradePlan] == is[topsv1.AnnotationUpgradePlan] && was[topsv1.AnnotationUpgradeOnly] == is[topsv1.AnnotationUpgradeOnly]
}

// Stored returns the object to be stored before the gr follows it: the current one with the content of the plan, or a new
// one. With step, each batch awaits an approval. checked is what was present when the plan was checked.
//
// It returns an error if batches would await an approval under OTA, or if the current object may not be replaced. That is
// so if the gr was upgraded since the check, which may have ended the plan, or if another client wrote the object since it
// was checked or copied. An object that already has this content is never refused.
func (p *Plan) Stored(now, checked Current, step bool) (*topsv1.UpgradePlan, error) {
	if !Unchanged(checked.Gr, now.Gr) {
		return nil, fmt.Errorf("gr %s was changed since this plan was checked: review it, and try again", now.Gr.Name)
	}
	next := &topsv1.UpgradePlan{}
	if now.Stored != nil {
		next = now.Stored.DeepCopy()
	}
	from := p.Object.DeepCopy()
	next.TypeMeta, next.Name, next.Labels, next.Annotations, next.Spec = from.TypeMeta, from.Name, from.Labels, from.Annotations, from.Spec
	next.OwnerReferences = []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: now.Gr.Name, UID: now.Gr.UID}}
	for i := range next.Spec.Batches {
		if step {
			next.Spec.Batches[i].Approval = topsv1.ApprovalManual
		}
	}
	if err := awaitable(now.Gr, next); err != nil || now.Stored == nil {
		return next, err
	}
	if err := now.free(); err != nil || equality.Semantic.DeepEqual(now.Stored.Spec, next.Spec) {
		return next, err
	}
	return next, p.replaces(now.Stored, checked.Stored)
}

// Overtaken returns an error if another client wrote the gr or its plan during a write of the gr, so that the result of that
// write, err, does not say what the gr follows now. The error does, and wraps err. Otherwise Overtaken returns nil. stored is
// the plan as it was stored before the write, and now what is present after it.
func Overtaken(now Current, stored *topsv1.UpgradePlan, err error) error {
	isStored := now.Stored != nil && Version(now.Stored) == Version(stored)
	switch follows := now.Gr.Annotations[topsv1.AnnotationUpgradePlan] == stored.Name; {
	case err == nil && follows && !isStored:
		return fmt.Errorf("gr %s follows UpgradePlan %s, but another client changed that meanwhile: it is no longer your plan; give yours another metadata.name, and run it again", now.Gr.Name, stored.Name)
	case err != nil && follows && isStored:
		return fmt.Errorf("%w; but gr %s follows UpgradePlan %s, which is your plan: this request succeeded, or one of another client did", err, now.Gr.Name, stored.Name)
	}
	return nil
}

// awaitable returns an error if a batch of a plan awaits an approval although its gr has strategy OTA: there a request
// is the approval of its node, whatever the batch.
func awaitable(gr *topsv1.GcuResource, plan *topsv1.UpgradePlan) error {
	manual := slices.IndexFunc(plan.Spec.Batches, func(b topsv1.PlannedBatch) bool { return b.Approval == topsv1.ApprovalManual })
	if manual < 0 || !daemonset.IsOTA(gr.Annotations) {
		return nil
	}
	return fmt.Errorf("batch %s would await an approval, but gr %s has strategy OTA, under which each node waits for its own request and no batch stops it: run the plan without step, and without approval: Manual in its batches, or set annotation %s to AdvancedRollingUpdate first",
		plan.Spec.Batches[manual].Name, gr.Name, topsv1.AnnotationUpdateStrategy)
}

// free returns an error if the name of the stored plan is taken: by a plan for another gr, or by an ended plan that
// keeps its result.
func (now Current) free() error {
	switch plan := now.Stored; {
	case plan.Spec.GcuResource != now.Gr.Name:
		return fmt.Errorf("UpgradePlan %s is for gr %s: give the plan another metadata.name", plan.Name, plan.Spec.GcuResource)
	case now.Gr.Annotations[topsv1.AnnotationUpgradePlan] != plan.Name && plan.Status.Time != nil:
		return fmt.Errorf("UpgradePlan %s has ended, and keeps its result: give the plan another metadata.name", plan.Name)
	}
	return nil
}

// replaces returns an error if another client wrote the stored plan after this one was checked or copied. checked is what was
// stored at the check.
func (p *Plan) replaces(stored, checked *topsv1.UpgradePlan) error {
	switch from := p.Object; {
	case checked == nil || checked.UID != stored.UID || checked.Generation != stored.Generation:
		return fmt.Errorf("another client wrote UpgradePlan %s since this plan was checked: compare them, and try again", stored.Name)
	case from.UID != "" && from.UID != stored.UID:
		return fmt.Errorf("the plan is a copy of another UpgradePlan, with uid %s; %s has %s: compare them, and edit that one", from.UID, stored.Name, stored.UID)
	case from.Generation != 0 && from.Generation != stored.Generation:
		return fmt.Errorf("the plan is a copy of generation %d of UpgradePlan %s, which has %d now: compare them, and edit that one", from.Generation, stored.Name, stored.Generation)
	}
	return nil
}

// Content returns a plan as the content of a file: without a status. It returns an error if it cannot be
// written as JSON.
func Content(plan *topsv1.UpgradePlan) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(plan)
	if err != nil {
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return content, nil
}

// Version identifies the content of a stored plan by its name, UID and generation.
func Version(plan *topsv1.UpgradePlan) string {
	return fmt.Sprintf("%s %s/%d", plan.Name, plan.UID, plan.Generation)
}
