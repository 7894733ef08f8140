package gcuresource

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/message"
)

// maxRevisions is how many specs of a gr are kept (contract section 2.10).
const maxRevisions = 10

// Reasons of a Failure to roll back.
const (
	// ReasonUnknownRevision means that the annotation names no revision of the gr.
	ReasonUnknownRevision = "UnknownRevision"
	// ReasonNoPreviousRevision means that there is no earlier spec.
	ReasonNoPreviousRevision = "NoPreviousRevision"
	// ReasonUnreadableRevision means that the revision holds no spec.
	ReasonUnreadableRevision = "UnreadableRevision"
	// ReasonRefusedRevision means that the API server refuses the revision's spec
	// after the present one.
	ReasonRefusedRevision = "RefusedRevision"
)

// revisionData is what a revision holds.
type revisionData struct {
	Spec topsv1.GcuResourceSpec `json:"spec"`
}

// history is what is known of the specs of a gr.
type history struct {
	// current names the revision of the present spec, whether it exists or not.
	current string
	// data is what that revision holds.
	data []byte
	// revisions are those of the gr, by UID, the newest first.
	revisions []*appsv1.ControllerRevision
}

// newHistory sorts the revisions out of a list that belong to a gr. An error
// means that the spec cannot be encoded.
func newHistory(gr *topsv1.GcuResource, list []appsv1.ControllerRevision) (*history, error) {
	data, err := encodeSpec(gr)
	if err != nil {
		return nil, err
	}
	h := &history{current: revisionName(gr, data), data: data}
	for i := range list {
		if metav1.IsControlledBy(&list[i], gr) {
			h.revisions = append(h.revisions, &list[i])
		}
	}
	slices.SortFunc(h.revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Name, b.Name))
	})
	return h, nil
}

// encodeSpec returns the canonical form of the spec: fields in the order of the
// Go type, maps sorted, so that equal specs are equal bytes.
func encodeSpec(gr *topsv1.GcuResource) ([]byte, error) {
	data, err := json.Marshal(revisionData{gr.Spec})
	if err != nil {
		return nil, fmt.Errorf("encoding the spec of GcuResource %s: %w", gr.Name, err)
	}
	return data, nil
}

// revisionName is the gr's name with a short hash of its spec.
func revisionName(gr *topsv1.GcuResource, data []byte) string {
	sum := sha256.Sum256(data)
	return gr.Name + "-" + hex.EncodeToString(sum[:5])
}

// revisionOf names the revision of the present spec of a gr. An error means
// that the spec cannot be encoded.
func revisionOf(gr *topsv1.GcuResource) (string, error) {
	data, err := encodeSpec(gr)
	if err != nil {
		return "", err
	}
	return revisionName(gr, data), nil
}

// rolledBack reports whether the present spec of a gr is one that was restored.
// The annotation was written together with the spec, so this survives anything.
func rolledBack(gr *topsv1.GcuResource) bool {
	to, ok := gr.Annotations[topsv1.AnnotationRolledBackTo]
	if !ok {
		return false
	}
	current, err := revisionOf(gr)
	return err == nil && to == current
}

// isKept reports whether the newest revision is that of the present spec.
func (h *history) isKept() bool {
	return len(h.revisions) > 0 && h.revisions[0].Name == h.current
}

// changed returns the components of a gr whose pods differ from those of its
// spec before the present one, in deployment order; those that only one of the
// two specs asks for are not among them.
func (h *history) changed(gr *topsv1.GcuResource) ([]string, error) {
	previous, failure := h.target(topsv1.RollbackToPrevious)
	if failure != nil {
		return nil, nil
	}
	before := gr.DeepCopy()
	if before.Spec, failure = specIn(previous); failure != nil {
		return nil, nil
	}
	was, err := templates(before)
	if err != nil {
		return nil, err
	}
	is, err := templates(gr)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range component.Requested(&gr.Spec) {
		if was[name] != nil && !equality.Semantic.DeepEqual(was[name], is[name]) {
			names = append(names, name)
		}
	}
	return names, nil
}

// templates returns the pod templates of each component by workload.
func templates(gr *topsv1.GcuResource) (map[string]map[component.Ref]any, error) {
	rendered, err := component.Render(gr, "")
	if err != nil {
		return nil, err
	}
	all := map[string]map[component.Ref]any{}
	for i := range rendered {
		of := map[component.Ref]any{}
		for _, d := range rendered[i].Objects {
			if d.Ref.Workload() && !d.Ref.MadeOnce() {
				of[d.Ref], _, _ = unstructured.NestedFieldNoCopy(d.Object.Object, "spec", "template")
			}
		}
		all[rendered[i].Name] = of
	}
	return all, nil
}

// find returns the revision of a name, nil when there is none.
func (h *history) find(name string) *appsv1.ControllerRevision {
	i := slices.IndexFunc(h.revisions, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return h.revisions[i]
}

// next is the number of the next revision.
func (h *history) next() int64 {
	if len(h.revisions) == 0 {
		return 1
	}
	return h.revisions[0].Revision + 1
}

// revision is that of the present spec, to be created: owned by the gr, so that
// it goes with it (decision D16).
func (h *history) revision(gr *topsv1.GcuResource, namespace string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: h.current,
			Labels: map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy, topsv1.LabelGcuResource: gr.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr.Name, UID: gr.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
			}},
		},
		Data:     runtime.RawExtension{Raw: h.data},
		Revision: h.next(),
	}
}

// leftover reports whether a revision belonged to a gr of this name that is gone:
// names of cluster scoped objects are unique.
func leftover(gr *topsv1.GcuResource, r *appsv1.ControllerRevision) bool {
	owner := metav1.GetControllerOf(r)
	return owner != nil && owner.Kind == topsv1.GcuResourceKind && owner.APIVersion == topsv1.GroupVersion.String() &&
		owner.Name == gr.Name && owner.UID != gr.UID
}

// target returns the revision that the value of annotation rollback-to means,
// or why there is none: previous is the newest but the present one.
func (h *history) target(wish string) (*appsv1.ControllerRevision, *Failure) {
	if wish != topsv1.RollbackToPrevious {
		if r := h.find(wish); r != nil {
			return r, nil
		}
		return nil, &Failure{Reason: ReasonUnknownRevision, Message: fmt.Sprintf(
			"annotation %s names revision %q, which does not exist: set it to %s or to one of %s, or remove it",
			topsv1.AnnotationRollbackTo, wish, topsv1.RollbackToPrevious, message.Names(h.names()))}
	}
	for _, r := range h.revisions {
		if r.Name != h.current {
			return r, nil
		}
	}
	return nil, &Failure{Reason: ReasonNoPreviousRevision, Message: fmt.Sprintf(
		"annotation %s asks for the previous spec, but no earlier one is kept: remove it", topsv1.AnnotationRollbackTo)}
}

// names of the revisions, the newest first.
func (h *history) names() []string {
	names := make([]string, len(h.revisions))
	for i, r := range h.revisions {
		names[i] = r.Name
	}
	return names
}

// specIn reads the spec that a revision holds.
func specIn(r *appsv1.ControllerRevision) (topsv1.GcuResourceSpec, *Failure) {
	var data revisionData
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return data.Spec, &Failure{Reason: ReasonUnreadableRevision, Message: fmt.Sprintf(
			"revision %s cannot be read, name another one in annotation %s: %v", r.Name, topsv1.AnnotationRollbackTo, err)}
	}
	return data.Spec, nil
}

// surplus returns the revisions beyond maxRevisions, never the present one nor
// a protected one.
func (h *history) surplus(protected ...string) []*appsv1.ControllerRevision {
	var list []*appsv1.ControllerRevision
	for i, r := range h.revisions {
		if i >= maxRevisions && r.Name != h.current && !slices.Contains(protected, r.Name) {
			list = append(list, r)
		}
	}
	return list
}
