// Package revision manages the history of the specs of a GcuResource (gr): which revision has
// which spec, which one a rollback restores, and which ones are surplus.
package revision

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Limit is how many specs of a gr are stored (contract section 2.10).
const Limit = 10

// Reasons of a Failure to roll back.
const (
	// ReasonUnknownRevision means that the annotation does not name a revision of the gr.
	ReasonUnknownRevision = "UnknownRevision"
	// ReasonNoPreviousRevision means that there is no earlier spec.
	ReasonNoPreviousRevision = "NoPreviousRevision"
	// ReasonUnreadableRevision means that the revision holds no spec.
	ReasonUnreadableRevision = "UnreadableRevision"
	// ReasonRefusedRevision means that the API server rejects the revision's spec as an update of
	// the current one.
	ReasonRefusedRevision = "RefusedRevision"
)

// content is the data of a revision.
type content struct {
	Spec topsv1.GcuResourceSpec `json:"spec"`
}

// History is the history of the specs of a gr.
type History struct {
	// Current is the name of the current spec's revision, whether it exists or not.
	Current string
	// data of that revision.
	data []byte
	// revisions of the gr, by owner UID, newest first.
	revisions []*appsv1.ControllerRevision
}

// NewHistory picks the revisions of a gr from a list. An error means that the spec cannot be
// encoded.
func NewHistory(gr *topsv1.GcuResource, list []appsv1.ControllerRevision) (*History, error) {
	data, err := encode(gr)
	if err != nil {
		return nil, err
	}
	h := &History{Current: nameOf(gr, data), data: data}
	for i := range list {
		if daemonset.IsOf(&list[i], gr) {
			h.revisions = append(h.revisions, &list[i])
		}
	}
	slices.SortFunc(h.revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Name, b.Name))
	})
	return h, nil
}

// encode returns the canonical form of the spec: fields in the order of the Go type, maps sorted,
// so that equal specs have equal bytes.
func encode(gr *topsv1.GcuResource) ([]byte, error) {
	data, err := json.Marshal(content{gr.Spec})
	if err != nil {
		return nil, fmt.Errorf("encoding the spec of GcuResource %s: %w", gr.Name, err)
	}
	return data, nil
}

// nameOf returns the gr's name with a short hash of its spec.
func nameOf(gr *topsv1.GcuResource, data []byte) string {
	sum := sha256.Sum256(data)
	return gr.Name + "-" + hex.EncodeToString(sum[:5])
}

// Name returns the name of the revision of a gr's current spec. An error means that the spec
// cannot be encoded.
func Name(gr *topsv1.GcuResource) (string, error) {
	data, err := encode(gr)
	if err != nil {
		return "", err
	}
	return nameOf(gr, data), nil
}

// BackTo returns the name of the revision that a gr, as it is deployed, went back to: it is deployed in place
// of a rejected spec, or a person restored it. It returns "" if the gr did not go back.
func BackTo(gr *topsv1.GcuResource) string {
	_, inPlace := gr.Annotations[topsv1.AnnotationRejectedRevision]
	if !inPlace && !RolledBack(gr) {
		return ""
	}
	name, _ := Name(gr)
	return name
}

// RolledBack reports whether the current spec of a gr was restored. The annotation was written
// together with the spec, so the answer survives restarts.
func RolledBack(gr *topsv1.GcuResource) bool {
	to, ok := gr.Annotations[topsv1.AnnotationRolledBackTo]
	if !ok {
		return false
	}
	current, err := Name(gr)
	return err == nil && to == current
}

// Newest returns the name of the newest revision, "" if there is none.
func (h *History) Newest() string {
	if len(h.revisions) == 0 {
		return ""
	}
	return h.revisions[0].Name
}

// HasCurrent reports whether the newest revision is that of the current spec.
func (h *History) HasCurrent() bool {
	return h.Newest() == h.Current
}

// Changed returns the components of a gr whose pod templates differ from those of its previous
// spec, in deployment order, without those that only one of the two specs requests.
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
			if d.Ref.Workload() && !d.Ref.CreateOnly() {
				of[d.Ref], _, _ = unstructured.NestedFieldNoCopy(d.Object.Object, "spec", "template")
			}
		}
		all[rendered[i].Name] = of
	}
	return all, nil
}

// Find returns the revision with a name, nil if there is none.
func (h *History) Find(name string) *appsv1.ControllerRevision {
	i := slices.IndexFunc(h.revisions, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return h.revisions[i]
}

// Next returns the number of the next revision.
func (h *History) Next() int64 {
	if len(h.revisions) == 0 {
		return 1
	}
	return h.revisions[0].Revision + 1
}

// New returns a revision of the current spec to be created, owned by the gr, so that it is
// deleted with it (decision D16).
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

// Leftover reports whether a revision belonged to a deleted gr of this name: names of
// cluster-scoped objects are unique.
func Leftover(gr *topsv1.GcuResource, r *appsv1.ControllerRevision) bool {
	owner := metav1.GetControllerOf(r)
	return owner != nil && owner.Kind == topsv1.GcuResourceKind && owner.APIVersion == topsv1.GroupVersion.String() &&
		owner.Name == gr.Name && owner.UID != gr.UID
}

// Target returns the revision that the value of annotation rollback-to names, or why there is
// none. previous is the newest revision other than the current one.
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

// names returns the names of the revisions, newest first.
func (h *History) names() []string {
	names := make([]string, len(h.revisions))
	for i, r := range h.revisions {
		names[i] = r.Name
	}
	return names
}

// Spec returns the spec stored in a revision.
func Spec(r *appsv1.ControllerRevision) (topsv1.GcuResourceSpec, *state.Failure) {
	var data content
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return data.Spec, &state.Failure{Reason: ReasonUnreadableRevision, Message: fmt.Sprintf(
			"revision %s cannot be read, name another one in annotation %s: %v", r.Name, topsv1.AnnotationRollbackTo, err)}
	}
	return data.Spec, nil
}

// Specs returns the kept specs that can be read, by the names of their revisions.
func (h *History) Specs() map[string]*topsv1.GcuResourceSpec {
	specs := map[string]*topsv1.GcuResourceSpec{}
	for _, r := range h.revisions {
		if spec, failure := Spec(r); failure == nil {
			specs[r.Name] = &spec
		}
	}
	return specs
}

// FurtherResources returns the resources that device plugins name in the kept specs (daemonset.FurtherResources), nil for
// none. Only specs with names are decoded.
func (h *History) FurtherResources() (names []corev1.ResourceName) {
	for _, r := range h.revisions {
		if !bytes.Contains(r.Data.Raw, []byte(daemonset.VariableOfResources)) {
			continue
		}
		if spec, failure := Spec(r); failure == nil {
			names = append(names, component.FurtherResources(&spec)...)
		}
	}
	return names
}

// IsFull reports whether there are revisions beyond the limit.
func (h *History) IsFull() bool { return len(h.revisions) > Limit }

// Surplus returns the revisions beyond the limit, except the current one, protected ones, and for each existing
// DaemonSet the newest one that names it: without that, the gr could not recognize the DaemonSet (CreatedBy).
func (h *History) Surplus(existing []*appsv1.DaemonSet, protected ...string) ([]*appsv1.ControllerRevision, error) {
	unnamed := map[types.NamespacedName]bool{}
	for _, ds := range existing {
		unnamed[keyOf(ds)] = true
	}
	var list []*appsv1.ControllerRevision
	for i, r := range h.revisions {
		names := false
		if spec, failure := Spec(r); failure == nil {
			given, err := component.DaemonSets(&spec)
			if err != nil {
				return nil, err
			}
			before := len(unnamed)
			maps.DeleteFunc(unnamed, func(key types.NamespacedName, _ bool) bool { return given[key] != "" })
			names = len(unnamed) < before
		}
		if i >= Limit && r.Name != h.Current && !slices.Contains(protected, r.Name) && !names {
			list = append(list, r)
		}
	}
	return list, nil
}

func keyOf(ds *appsv1.DaemonSet) types.NamespacedName {
	return types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}
}

// Refused returns the Failure for a spec of a revision that the API server rejects.
func Refused(name string, err error) *state.Failure {
	return &state.Failure{Reason: ReasonRefusedRevision, Message: fmt.Sprintf(
		"the spec of revision %s cannot be restored: %v: change the spec step by step, or remove annotation %s", name, err, topsv1.AnnotationRollbackTo)}
}

// Own returns a gr whose own spec is deployed.
func Own(gr *topsv1.GcuResource) *topsv1.GcuResource {
	as := *gr
	as.Annotations = maps.Clone(gr.Annotations)
	delete(as.Annotations, topsv1.AnnotationRejectedRevision) // only the value that this operator computes counts
	return &as
}

// InPlace returns a gr with the spec of an earlier revision in place of its own, which is rejected.
func InPlace(gr *topsv1.GcuResource, good *appsv1.ControllerRevision) (*topsv1.GcuResource, *state.Failure) {
	spec, failure := Spec(good)
	if failure != nil {
		return nil, failure
	}
	rejected, err := Name(gr)
	if err != nil {
		return nil, &state.Failure{Reason: ReasonUnreadableRevision, Message: err.Error()}
	}
	as := Own(gr)
	as.Spec = spec
	metav1.SetMetaDataAnnotation(&as.ObjectMeta, topsv1.AnnotationRejectedRevision, rejected)
	return as, nil
}

// InForce returns the gr of this history as it is to be deployed: with an earlier spec if a rollback recorded in
// its rollout rejected its own. inPlace is then the name of the revision of that spec; "" otherwise. A Failure is
// returned if that spec is not kept or cannot be read.
func (h *History) InForce(gr *topsv1.GcuResource, rollout *topsv1.DaemonRollout) (as *topsv1.GcuResource, inPlace string, err error) {
	current, err := Name(gr)
	if err != nil {
		return nil, "", err
	}
	if inPlace = rollout.Status.InPlaceOf(current); inPlace == "" || !daemonset.IsOf(rollout, gr) {
		return Own(gr), "", nil
	}
	good := h.Find(inPlace)
	if good == nil {
		return nil, "", &state.Failure{Reason: ReasonUnreadableRevision, Message: fmt.Sprintf("revision %s, to be deployed in place of %s, "+
			"which is rejected, is not kept any more: apply another spec, or resume the rollout", inPlace, current)}
	}
	as, unreadable := InPlace(gr, good)
	if unreadable != nil {
		return nil, "", unreadable
	}
	return as, inPlace, nil
}

// Rejected returns the Failure for a spec that was rejected by a rollback.
func Rejected(name string, rollback *topsv1.RolloutRollback) *state.Failure {
	return &state.Failure{Reason: topsv1.ReasonRevisionRejected, Message: fmt.Sprintf(
		"revision %s of the spec is rejected, %s is deployed in its place until the spec changes or the rollout is resumed: %s",
		name, rollback.GcuResourceRevision, rollback.Message)}
}
