package daemonupdater

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simSpec is the spec of a gr in the model: the images of its components, and its stored
// revisions.
type simSpec struct {
	revision string
	kept     []string
	images   map[string][]string
}

// simGrUID returns the UID of the gr of a group.
func simGrUID(id observed.Group) types.UID { return types.UID("uid-gr-" + id.Name) }

// makeHeavy makes a DaemonSet belong to the component of its name, in a seed with operations.
func (w *simWorld) makeHeavy(ds *appsv1.DaemonSet, order int) {
	if w.ops == nil {
		return
	}
	ds.Annotations[topsv1.AnnotationOrder] = fmt.Sprint(order)
	ds.Labels[topsv1.LabelComponent] = ds.Name
	if simHeavy(ds.Name) {
		ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
}

// addGr creates the gr of a group.
func (w *simWorld) addGr(g *simGroup) {
	if g.id.Kind != observed.KindGcuResource {
		return
	}
	first := simapi.Get[*appsv1.DaemonSet](w.api, g.sets[0])
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: g.id.Name, UID: simGrUID(g.id), Annotations: map[string]string{}}}
	for _, key := range topsv1.UpgradeAnnotations {
		if value, ok := first.Annotations[key]; ok {
			gr.Annotations[key] = value
		}
	}
	w.api.Put(gr)
	w.nameSets(g)
	g.spec = &simSpec{images: map[string][]string{}}
	w.keepSpec(g)
}

// nameSets has the spec of a gr name its DaemonSets.
func (w *simWorld) nameSets(g *simGroup) {
	var names []types.NamespacedName
	for _, key := range g.sets {
		names = append(names, types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	}
	simapi.Edit(w.api, simapi.Key{Kind: simGrs, Name: g.id.Name}, func(gr *topsv1.GcuResource) { gr.Spec = fixture.SpecNaming(names...) })
}

// keepSpec stores the current images of a gr as a new revision of its spec.
func (w *simWorld) keepSpec(g *simGroup) {
	if g.spec == nil {
		return
	}
	name := fmt.Sprintf("%s-rev-%d", g.id.Name, len(g.spec.kept))
	g.spec.kept = append(g.spec.kept, name)
	for _, key := range g.sets {
		g.spec.images[name] = append(g.spec.images[name], simapi.Get[*appsv1.DaemonSet](w.api, key).Spec.Template.Spec.Containers[0].Image)
	}
	w.api.Put(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: name}})
	w.render(g, name)
}

// restoreBefore acts as an administrator who returns to the previous spec.
func (w *simWorld) restoreBefore(g *simGroup) {
	if i := slices.Index(g.spec.kept, g.spec.revision); i > 0 {
		w.render(g, g.spec.kept[i-1])
	}
}

// render acts as an administrator who sets the spec of a gr to a revision, and as the gcuresource
// controller, which deploys it.
func (w *simWorld) render(g *simGroup, revision string) {
	g.spec.revision = revision
	w.deploy(g, revision, "")
	simapi.Edit(w.api, simapi.Key{Kind: simGrs, Name: g.id.Name}, func(gr *topsv1.GcuResource) {
		gr.Generation++
		gr.Status.ObservedGeneration = gr.Generation
	})
}

// acceptRollback acts as an administrator who makes what is deployed in place of a rejected spec the spec.
func (w *simWorld) acceptRollback(g *simGroup) {
	is := simapi.Get[*appsv1.DaemonSet](w.api, g.sets[0]).Annotations
	if is[topsv1.AnnotationRejectedRevision] != "" {
		w.render(g, is[topsv1.AnnotationRevision])
	}
}

// deploy applies a revision of the spec to the DaemonSets of a gr, in place of a rejected one.
func (w *simWorld) deploy(g *simGroup, revision, rejected string) {
	for i, key := range g.sets {
		w.setImage(g, i, g.spec.images[revision][i])
		simapi.Edit(w.api, key, func(ds *appsv1.DaemonSet) {
			ds.Annotations[topsv1.AnnotationRevision] = revision
			delete(ds.Annotations, topsv1.AnnotationRejectedRevision)
			if rejected != "" {
				ds.Annotations[topsv1.AnnotationRejectedRevision] = rejected
			}
		})
	}
}

// deploySpecs acts as the gcuresource controller after a rollout has rejected a spec, or forgotten
// that, and now and then with a cache that does not show it.
func (w *simWorld) deploySpecs() {
	for _, g := range w.groups {
		if g.spec == nil || simapi.Get[*topsv1.GcuResource](w.api, simapi.Key{Kind: simGrs, Name: g.id.Name}) == nil {
			continue
		}
		is := simapi.Get[*appsv1.DaemonSet](w.api, g.sets[0]).Annotations[topsv1.AnnotationRevision]
		wanted, rejected := g.spec.revision, ""
		if r := w.rolloutOf(g.id); r != nil && r.Status.InPlaceOf(g.spec.revision) != "" {
			wanted, rejected = r.Status.InPlaceOf(g.spec.revision), g.spec.revision
		}
		switch {
		case g.spec.images[wanted] == nil:
			w.violate("rollback: gr %s has no revision %s", g.id.Name, wanted)
			return
		case is != wanted && (w.calm || w.chance(2)):
			w.say("gr %s is deployed from %s, its spec is %s", g.id.Name, wanted, g.spec.revision)
			w.undone++
			w.deploy(g, wanted, rejected)
		case is == wanted && rejected != "" && !w.calm && w.chance(40):
			w.say("gr %s is deployed from %s by a manager with an old cache", g.id.Name, rejected)
			w.deploy(g, rejected, "")
		}
	}
}

// checkRejected checks that a rollout never makes a revision its target again that it rejected.
func (w *simWorld) checkRejected(before, after *topsv1.DaemonRollout) {
	was, is := before.Status.Rollback, after.Status.Rollback
	if was == nil || is == nil || was.RestoredTime == nil || !was.Time.Equal(&is.Time) {
		return
	}
	if after.Status.Revision == is.From && before.Status.Revision != is.From {
		w.violate("rollback: %s goes to %s, which it rejected", after.Name, is.From)
	}
}

// deleteGr deletes a gr. Its DaemonSets go, then their pods, and its rollout.
func (w *simWorld) deleteGr(g *simGroup) {
	w.say("admin: gr %s is deleted", g.id.Name)
	w.groups = slices.DeleteFunc(slices.Clone(w.groups), func(o *simGroup) bool { return o == g })
	w.api.Remove(simapi.Key{Kind: simGrs, Name: g.id.Name})
	for _, key := range g.sets {
		w.api.Remove(key)
		delete(w.seen, key)
	}
	w.later(w.seconds(0, 90), func() {
		if slices.Contains(w.groups, g) {
			return // a backup brought it back
		}
		for _, pod := range w.setPods() {
			if slices.Contains(g.sets, simapi.Named(simSets, pod.Namespace, simOwner(pod).Name)) {
				_, _ = w.api.Delete(simapi.KeyOf(pod), nil) // it exists
			}
		}
	})
	w.later(w.seconds(0, 90), func() {
		if slices.Contains(w.groups, g) {
			return
		}
		key := g.id.RolloutKey("gcu-system")
		w.api.Remove(simapi.Named(simRollouts, key.Namespace, key.Name))
	})
}

// simHeavy reports whether changing a component takes more than replacing a pod.
func simHeavy(component string) bool {
	switch upgradeplan.DefaultBook().Disruption([]string{component}, false) {
	case "", upgradeplan.ReplacePod:
		return false
	}
	return true
}
