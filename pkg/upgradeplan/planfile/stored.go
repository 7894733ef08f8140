package planfile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// For returns an error unless the plan is for the gr of this name.
func (p *Plan) For(gr string) error {
	if of := p.Object.Spec.GcuResource; of != gr {
		return fmt.Errorf("the plan is for gr %s, not %s", of, gr)
	}
	return nil
}

// Stored returns the object to be stored before the gr follows it: present, the one with the name of the
// plan, with its content, or a new one if present is nil. With step, each batch awaits an approval. checked is the one that
// was there when the plan was checked, nil for none. The error says why present may not be replaced: also by what was checked
// before, or is a copy of what was stored before, somebody else wrote it, unless it has this content.
func (p *Plan) Stored(present, checked *topsv1.UpgradePlan, gr *topsv1.GcuResource, step bool) (*topsv1.UpgradePlan, error) {
	next := &topsv1.UpgradePlan{}
	if present != nil {
		next = present.DeepCopy()
		switch {
		case present.Spec.GcuResource != gr.Name:
			return nil, fmt.Errorf("UpgradePlan %s is for gr %s: give the plan another metadata.name", present.Name, present.Spec.GcuResource)
		case gr.Annotations[topsv1.AnnotationUpgradePlan] != present.Name && present.Status.Time != nil:
			return nil, fmt.Errorf("UpgradePlan %s has ended, and keeps its result: give the plan another metadata.name", present.Name)
		}
	}
	from := p.Object.DeepCopy()
	next.TypeMeta, next.Name, next.Labels, next.Annotations, next.Spec = from.TypeMeta, from.Name, from.Labels, from.Annotations, from.Spec
	next.OwnerReferences = []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr.Name, UID: gr.UID}}
	for i := range next.Spec.Batches {
		if step {
			next.Spec.Batches[i].Approval = topsv1.ApprovalManual
		}
	}
	if present == nil || equality.Semantic.DeepEqual(present.Spec, next.Spec) {
		return next, nil
	}
	switch from := p.Object.Generation; {
	case checked == nil || checked.UID != present.UID || checked.Generation != present.Generation:
		return nil, fmt.Errorf("UpgradePlan %s was written by somebody else since this plan was checked: compare them, and try again", present.Name)
	case from != 0 && from != present.Generation:
		return nil, fmt.Errorf("the plan is a copy of generation %d of UpgradePlan %s, which has %d now: compare them, and edit that one", from, present.Name, present.Generation)
	}
	return next, nil
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
