package request

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Desired is the state that an upgrade requests of a gr.
type Desired struct {
	// Blueprint holds the new spec; with nil only the limit changes.
	Blueprint *topsv1.GcuResource
	// Limited: the upgrade sets its limit: Limit, nil for none.
	Limited bool
	Limit   *daemonset.Limit
	// whole: the blueprint is a gr with metadata, not only a spec.
	whole bool
	// plan is the name of the plan to follow, "" for none.
	plan string
}

// Blueprint returns the blueprint or the spec of the upgrade as a gr, nil if it has neither;
// file is the content of the named file.
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
	if err := checkBlueprint(b.File, blueprint, name); err != nil {
		return nil, err
	}
	return blueprint, checkContent(b.File, file)
}

// Desired returns the desired state. Its limit is that of the request, else of the blueprint;
// the limit of an earlier upgrade does not count.
func (b *Upgrade) Desired(blueprint *topsv1.GcuResource) (*Desired, error) {
	d := &Desired{Blueprint: blueprint, Limited: b.Given(), Limit: b.value(), whole: b.Spec == nil}
	if blueprint == nil || d.Limited {
		return d, nil
	}
	var err error
	if d.Limit, err = daemonset.LimitOf(blueprint.Annotations); err != nil {
		return nil, BadRequest("blueprint: %v", err)
	}
	d.Limited = d.Limit != nil
	return d, nil
}

// Changes reports whether the upgrade changes anything.
func (d *Desired) Changes() bool { return d.Blueprint != nil || d.Limited }

// SpecAndLimit returns the desired state without the annotations of the blueprint, of which a plan file has only
// the spec and, as its nodes and components, the limit.
func (d *Desired) SpecAndLimit() *Desired {
	plain := *d
	if d.Blueprint != nil {
		plain.Blueprint = &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: d.Blueprint.Name}, Spec: d.Blueprint.Spec}
	}
	return &plain
}

// After returns the gr upgraded in a mode.
func (d *Desired) After(present *topsv1.GcuResource, mode string) *topsv1.GcuResource {
	if mode == ModeRecreate {
		return d.Recreated(present)
	}
	return d.InPlace(present)
}

// CheckSettings returns an error if an upgrade makes the upgrade settings of a gr invalid, with which nothing would be
// upgraded. A fault that is there before does not count: another request may mend it.
func CheckSettings(before, after *topsv1.GcuResource) error {
	_, err := daemonset.SettingsIn(after.Annotations)
	if err == nil {
		return nil
	}
	if _, fault := daemonset.SettingsIn(before.Annotations); fault != nil && fault.Error() == err.Error() {
		return nil
	}
	return BadRequest("with this upgrade the gr would have an invalid setting: %v", err)
}

// InPlace returns the gr upgraded in place.
func (d *Desired) InPlace(present *topsv1.GcuResource) *topsv1.GcuResource {
	gr := present.DeepCopy()
	if d.Blueprint != nil {
		gr = upgraded(present, d.Blueprint)
	}
	if d.plan != "" {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradePlan, d.plan)
	}
	if d.Limited {
		delete(gr.Annotations, topsv1.AnnotationUpgradePlan)
	}
	if only := d.Limit.String(); only != "" {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradeOnly, only)
	} else if d.Limited {
		delete(gr.Annotations, topsv1.AnnotationUpgradeOnly)
	}
	return gr
}

// Recreated returns the gr that replaces the current one: with the blueprint's labels,
// annotations and spec. Identity and history in a blueprint, which may be the output of
// kubectl get, are dropped. If the request has only a spec, labels and annotations are kept.
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
	for _, key := range []string{topsv1.AnnotationRollbackTo, topsv1.AnnotationRolledBackTo, topsv1.AnnotationRecreation,
		topsv1.AnnotationUpgradeOnly, topsv1.AnnotationUpgradePlan} { // a plan belongs to the gr that is deleted
		delete(gr.Annotations, key)
	}
	return gr
}

// upgraded returns a gr with the spec and the upgrade annotations of a blueprint. Without a
// strategy it gets AdvancedRollingUpdate, so that nodes are upgraded (contract section 2.10,
// D8). The limit of an earlier upgrade is removed, and the plan: also one that a blueprint names, which may be the output of kubectl get.
func upgraded(present, blueprint *topsv1.GcuResource) *topsv1.GcuResource {
	gr := present.DeepCopy()
	gr.Spec = *blueprint.Spec.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, present.Annotations)
	dropAliases(annotations, blueprint.Annotations)
	for _, key := range topsv1.UpgradeAnnotations {
		if value, ok := blueprint.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	delete(annotations, topsv1.AnnotationUpgradePlan)
	if _, given := blueprint.Annotations[topsv1.AnnotationUpgradeOnly]; !given {
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

// dropAliases removes the settings from annotations that a blueprint has, under any of their keys: the one that takes
// precedence may not be the blueprint's.
func dropAliases(annotations, blueprint map[string]string) {
	for _, keys := range daemonset.Aliases() {
		if slices.ContainsFunc(keys, func(key string) bool { _, given := blueprint[key]; return given }) {
			maps.DeleteFunc(annotations, func(key, _ string) bool { return slices.Contains(keys, key) })
		}
	}
}

// defaultStrategy is the strategy that a PUT sets on a gr without one.
const defaultStrategy = "AdvancedRollingUpdate"
