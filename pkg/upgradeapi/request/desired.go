package request

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Desired is what an upgrade makes of a gr.
type Desired struct {
	// Blueprint holds the new spec; nil: nothing but the limit is changed.
	Blueprint *topsv1.GcuResource
	// Limited: the upgrade says what it is limited to, Cut, nil for nothing.
	Limited bool
	Cut     *daemonset.Cut
	// whole: the blueprint is a whole gr, not just a spec.
	whole bool
}

// Blueprint returns what the gr of a name is to be brought to, nil for what it is; file is
// the content of the file that the upgrade names.
func (b *Upgrade) Blueprint(name string, file []byte) (*topsv1.GcuResource, error) {
	switch {
	case b.Spec != nil:
		return &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *b.Spec}, nil
	case b.File == "":
		return nil, nil
	}
	blueprint, err := parseBlueprint(b.File, file)
	if err != nil {
		return nil, err
	}
	return blueprint, checkBlueprint(b.File, blueprint, name)
}

// Desired returns what the upgrade wants. It says itself what it is limited to, in the
// request or in the blueprint: what one before was limited to does not count.
func (b *Upgrade) Desired(blueprint *topsv1.GcuResource) (*Desired, error) {
	d := &Desired{Blueprint: blueprint, Limited: b.Given(), Cut: b.cut(), whole: b.Spec == nil}
	if blueprint == nil || d.Limited {
		return d, nil
	}
	var err error
	if d.Cut, err = daemonset.CutOf(blueprint.Annotations); err != nil {
		return nil, BadRequest("blueprint: %v", err)
	}
	d.Limited = d.Cut != nil
	return d, nil
}

// Changes reports whether anything is wanted but the gr as it is.
func (d *Desired) Changes() bool { return d.Blueprint != nil || d.Limited }

// InPlace returns a gr that is upgraded in place.
func (d *Desired) InPlace(present *topsv1.GcuResource) *topsv1.GcuResource {
	gr := present.DeepCopy()
	if d.Blueprint != nil {
		gr = upgraded(present, d.Blueprint)
	}
	if only := d.Cut.String(); only != "" {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradeOnly, only)
	} else if d.Limited {
		delete(gr.Annotations, topsv1.AnnotationUpgradeOnly)
	}
	return gr
}

// Recreated returns the gr to be created in place of one: its name, labels, annotations and
// spec. A blueprint may be what kubectl printed of another gr, whose identity and history are
// not taken over. When the request holds a spec only, what is no part of it stays as it is.
func (d *Desired) Recreated(present *topsv1.GcuResource) *topsv1.GcuResource {
	from := d.Blueprint
	if !d.whole {
		from = present
	}
	gr := &topsv1.GcuResource{
		TypeMeta:   metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: d.Blueprint.Name, Labels: maps.Clone(from.Labels), Annotations: maps.Clone(from.Annotations)},
		Spec:       *d.Blueprint.Spec.DeepCopy(),
	}
	for _, key := range []string{topsv1.AnnotationRollbackTo, topsv1.AnnotationRolledBackTo, topsv1.AnnotationRecreation} {
		delete(gr.Annotations, key)
	}
	return gr
}

// upgraded returns a gr with the spec of a blueprint and those upgrade annotations
// that the blueprint has. Without any strategy it gets AdvancedRollingUpdate, so
// that the fleet is rolled (contract section 2.10, D8). What an upgrade before was
// limited to is not its business.
func upgraded(present, blueprint *topsv1.GcuResource) *topsv1.GcuResource {
	gr := present.DeepCopy()
	gr.Spec = *blueprint.Spec.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, present.Annotations)
	for _, key := range topsv1.UpgradeAnnotations {
		if value, ok := blueprint.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	if _, limited := blueprint.Annotations[topsv1.AnnotationUpgradeOnly]; !limited {
		delete(annotations, topsv1.AnnotationUpgradeOnly)
	}
	_, ours := annotations[topsv1.AnnotationUpdateStrategy]
	_, openYurts := annotations[topsv1.OpenYurtAnnotationUpdateStrategy]
	if !ours && !openYurts {
		annotations[topsv1.AnnotationUpdateStrategy] = defaultStrategy
	}
	gr.Annotations = annotations
	return gr
}

// defaultStrategy is what a PUT gives a gr that has no strategy.
const defaultStrategy = "AdvancedRollingUpdate"
