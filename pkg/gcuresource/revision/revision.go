// Package revision keeps the history of the specs of a GcuResource (gr): which
// revision has which spec, which one a rollback restores, and which ones are surplus.
package revision

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
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Limit is how many specs of a gr are kept (contract section 2.10).
const Limit = 10

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

// content is what a revision holds.
type content struct {
	Spec topsv1.GcuResourceSpec `json:"spec"`
}

// History is what is known of the specs of a gr.
type History struct {
	// Current names the revision of the present spec, whether it exists or not.
	Current string
	// data is what that revision holds.
	data []byte
	// revisions are those of the gr, by UID, the newest first.
	revisions []*appsv1.ControllerRevision
}

// NewHistory sorts the revisions out of a list that belong to a gr. An error
// means that the spec cannot be encoded.
func NewHistory(gr *topsv1.GcuResource, list []appsv1.ControllerRevision) (*History, error) {
	data, err := encode(gr)
	if err != nil {
		return nil, err
	}
	h := &History{Current: nameOf(gr, data), data: data}
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

// encode returns the canonical form of the spec: fields in the order of the
// Go type, maps sorted, so that equal specs are equal bytes.
func encode(gr *topsv1.GcuResource) ([]byte, error) {
	data, err := json.Marshal(content{gr.Spec})
	if err != nil {
		return nil, fmt.Errorf("encoding the spec of GcuResource %s: %w", gr.Name, err)
	}
	return data, nil
}

// nameOf is the gr's name with a short hash of its spec.
func nameOf(gr *topsv1.GcuResource, data []byte) string {
	sum := sha256.Sum256(data)
	return gr.Name + "-" + hex.EncodeToString(sum[:5])
}

// Name names the revision of the present spec of a gr. An error means
// that the spec cannot be encoded.
func Name(gr *topsv1.GcuResource) (string, error) {
	data, err := encode(gr)
	if err != nil {
		return "", err
	}
	return nameOf(gr, data), nil
}

// RolledBack reports whether the present spec of a gr is one that was restored.
// The annotation was written together with the spec, so this survives anything.
func RolledBack(gr *topsv1.GcuResource) bool {
	to, ok := gr.Annotations[topsv1.AnnotationRolledBackTo]
	if !ok {
		return false
	}
	current, err := Name(gr)
	return err == nil && to == current
}

// IsKept reports whether the newest revision is that of the present spec.
func (h *History) IsKept() bool {
	return len(h.revisions) > 0 && h.revisions[0].Name == h.Current
}

// Changed returns the components of a gr whose pods differ from those of its
// spec before the present one, in deployment order; those that only one of the
// two specs asks for are not among them.
func (h *History) Changed(gr *topsv1.GcuResource) ([]string, error) {
	previous, failure := h.Target(topsv1.RollbackToPrevious)
	if failure != nil {
		return nil, nil
	}
	before := gr.DeepCopy()
	if before.Spec, failure = Spec(previous); failure != nil {
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

// Find returns the revision of a name, nil when there is none.
func (h *History) Find(name string) *appsv1.ControllerRevision {
	i := slices.IndexFunc(h.revisions, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return h.revisions[i]
}

// Next is the number of the next revision.
func (h *History) Next() int64 {
	if len(h.revisions) == 0 {
		return 1
	}
	return h.revisions[0].Revision + 1
}

// New returns the revision of the present spec, to be created: owned by the gr, so that
// it goes with it (decision D16).
func (h *History) New(gr *topsv1.GcuResource, namespace string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: h.Current,
			Labels: map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy, topsv1.LabelGcuResource: gr.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr.Name, UID: gr.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
			}},
		},
		Data:     runtime.RawExtension{Raw: h.data},
		Revision: h.Next(),
	}
}

// Leftover reports whether a revision belonged to a gr of this name that is gone:
// names of cluster scoped objects are unique.
func Leftover(gr *topsv1.GcuResource, r *appsv1.ControllerRevision) bool {
	owner := metav1.GetControllerOf(r)
	return owner != nil && owner.Kind == topsv1.GcuResourceKind && owner.APIVersion == topsv1.GroupVersion.String() &&
		owner.Name == gr.Name && owner.UID != gr.UID
}

// Target returns the revision that the value of annotation rollback-to means,
// or why there is none: previous is the newest but the present one.
func (h *History) Target(wanted string) (*appsv1.ControllerRevision, *state.Failure) {
	if wanted != topsv1.RollbackToPrevious {
		if r := h.Find(wanted); r != nil {
			return r, nil
		}
		return nil, &state.Failure{Reason: ReasonUnknownRevision, Message: fmt.Sprintf(
			"annotation %s names revision %q, which does not exist: set it to %s or to one of %s, or remove it",
			topsv1.AnnotationRollbackTo, wanted, topsv1.RollbackToPrevious, message.Names(h.names()))}
	}
	for _, r := range h.revisions {
		if r.Name != h.Current {
			return r, nil
		}
	}
	return nil, &state.Failure{Reason: ReasonNoPreviousRevision, Message: fmt.Sprintf(
		"annotation %s asks for the previous spec, but no earlier one is kept: remove it", topsv1.AnnotationRollbackTo)}
}

// names of the revisions, the newest first.
func (h *History) names() []string {
	names := make([]string, len(h.revisions))
	for i, r := range h.revisions {
		names[i] = r.Name
	}
	return names
}

// Spec reads the spec that a revision holds.
func Spec(r *appsv1.ControllerRevision) (topsv1.GcuResourceSpec, *state.Failure) {
	var data content
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return data.Spec, &state.Failure{Reason: ReasonUnreadableRevision, Message: fmt.Sprintf(
			"revision %s cannot be read, name another one in annotation %s: %v", r.Name, topsv1.AnnotationRollbackTo, err)}
	}
	return data.Spec, nil
}

// Surplus returns the revisions beyond the limit, never the present one nor
// a protected one.
func (h *History) Surplus(protected ...string) []*appsv1.ControllerRevision {
	var list []*appsv1.ControllerRevision
	for i, r := range h.revisions {
		if i >= Limit && r.Name != h.Current && !slices.Contains(protected, r.Name) {
			list = append(list, r)
		}
	}
	return list
}

// Refused says that the API server does not take the spec of a revision.
func Refused(name string, err error) *state.Failure {
	return &state.Failure{Reason: ReasonRefusedRevision, Message: fmt.Sprintf(
		"the spec of revision %s cannot be restored: %v: change the spec step by step, or remove annotation %s", name, err, topsv1.AnnotationRollbackTo)}
}
