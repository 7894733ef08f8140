package daemonupdater

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simapi"
)

// disturb makes nodes fail, pods be deleted and the administrator edit settings, at random.
func (w *simWorld) disturb() {
	if w.chance(w.knobs.nodes) {
		w.disturbNode(w.hosts[w.rng.IntN(len(w.hosts))])
	}
	if w.chance(30) {
		w.disturbPod()
	}
	w.disturbGated()
	w.disturbPins()
	if w.chance(w.knobs.admin) {
		w.administrate(w.groups[w.rng.IntN(len(w.groups))])
	}
	if w.knobs.ota && w.chance(3) {
		w.ask()
	}
	w.administratePolicies()
	w.disturbOperations()
	w.jump()
	w.haveAccidents()
	w.replaceCRDs()
	w.administratePlans()
}

func (w *simWorld) disturbNode(h *simHost) {
	switch {
	case w.api.Objects[simNodeKey(h.name)] == nil:
		w.say("node %s is added again", h.name)
		w.addNode(h)
		h.up, h.since = true, w.now
	case !h.up:
		w.power(h, true)
	case w.chance(6):
		w.say("node %s is deleted", h.name)
		w.api.Remove(simNodeKey(h.name))
		w.forgetOrder(h)
		if h.machine == nil {
			w.api.Remove(simapi.Key{Kind: simUpgrades, Name: h.name})
		}
	case w.chance(3):
		h.unwell = w.now.Add(w.seconds(1, 90))
	case w.chance(4):
		w.taint(h)
	default:
		w.powerOff(h)
	}
}

// taint keeps pods off a node for a while, or evicts them as well.
func (w *simWorld) taint(h *simHost) {
	effect := corev1.TaintEffectNoSchedule
	if w.chance(3) {
		effect = corev1.TaintEffectNoExecute
	}
	w.say("node %s is tainted %s", h.name, effect)
	w.untaint(h.name)
	if key := simNodeKey(h.name); w.api.Objects[key] != nil {
		simapi.Edit(w.api, key, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: simForeignTaint + "busy", Effect: effect})
		})
	}
	w.later(w.seconds(10, 900), func() { w.untaint(h.name) })
}

// untaint removes the taints of others from a node.
func (w *simWorld) untaint(name string) {
	foreign := func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, simForeignTaint) }
	if node := simapi.Get[*corev1.Node](w.api, simNodeKey(name)); node != nil && slices.ContainsFunc(node.Spec.Taints, foreign) {
		simapi.Edit(w.api, simNodeKey(name), func(n *corev1.Node) { n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, foreign) })
	}
}

// disturbPod deletes a pod, or gives it a finalizer for a while.
func (w *simWorld) disturbPod() {
	pods := w.setPods()
	if len(pods) == 0 {
		return
	}
	key := simapi.KeyOf(pods[w.rng.IntN(len(pods))])
	if w.chance(2) {
		w.say("somebody deletes %s", key)
		w.takenAway[w.api.Objects[key].GetUID()] = true
		_, _ = w.api.Delete(key, nil) // it exists
		return
	}
	w.say("%s has a finalizer for a while", key)
	w.setFinalizer(key, true)
	w.later(w.seconds(30, 1200), func() { w.setFinalizer(key, false) })
}

func (w *simWorld) setFinalizer(key simapi.Key, on bool) {
	simapi.Edit(w.api, key, func(p *corev1.Pod) {
		p.Finalizers = nil
		if on {
			p.Finalizers = []string{"example.com/stuck"}
		}
	})
}

// administrate makes one random edit of a group.
func (w *simWorld) administrate(g *simGroup) {
	choose := func(values ...string) string { return values[w.rng.IntN(len(values))] }
	switch w.rng.IntN(13) {
	case 0, 1, 2:
		w.push(g, w.chance(w.knobs.bad))
	case 3, 4:
		w.rollBack(g)
	case 5:
		w.annotate(g, topsv1.AnnotationPaused, choose("true", "true", "false", "", "perhaps"))
	case 6, 7:
		w.annotate(g, topsv1.AnnotationMaxUnavailable, choose("1", "2", "3", "5", "20%", "50%", "0", "many", ""))
	case 8:
		w.annotate(g, topsv1.AnnotationUpdateStrategy, choose("AdvancedRollingUpdate", "OTA", "Auto", "canary", ""))
	case 9:
		w.annotate(g, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
		w.annotate(g, topsv1.AnnotationMaxUnavailable, choose("1", "2", "3"))
		w.annotate(g, topsv1.AnnotationUpgradePolicy, "")
		w.annotate(g, topsv1.AnnotationPaused, "")
	case 10:
		w.updateType(g, appsv1.RollingUpdateDaemonSetStrategyType)
		w.later(w.seconds(5, 120), func() { w.updateType(g, appsv1.OnDeleteDaemonSetStrategyType) })
	case 11:
		w.annotate(g, topsv1.AnnotationUpgradePolicy, choose("missing", "", "", "no name"))
	case 12:
		if w.knobs.ota {
			w.annotate(g, topsv1.AnnotationUpdateStrategy, "OTA")
		}
	}
}

// annotate sets an annotation on the members of a group, one after the other like the gcuresource
// controller; "" removes it.
func (w *simWorld) annotate(g *simGroup, annotation, value string) {
	w.say("admin: %s %s=%q", g.id, annotation, value)
	if w.calm && annotation == topsv1.AnnotationUpdateStrategy && value == "" {
		w.acceptRollback(g) // without a strategy no rollout remembers what was rejected
	}
	if annotation == topsv1.AnnotationUpdateStrategy {
		if g.ota = w.now; value != "OTA" {
			g.ota = time.Time{}
		}
	}
	set := func(annotations map[string]string) {
		annotations[annotation] = value
		if value == "" {
			delete(annotations, annotation)
		}
	}
	simapi.Edit(w.api, simapi.Key{Kind: simGrs, Name: g.id.Name}, func(gr *topsv1.GcuResource) { set(gr.Annotations) })
	w.onEach(g, func(ds *appsv1.DaemonSet) { set(ds.Annotations) })
}

func (w *simWorld) updateType(g *simGroup, kind appsv1.DaemonSetUpdateStrategyType) {
	w.say("admin: %s updateStrategy %s", g.id, kind)
	w.onEach(g, func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy.Type = kind
		ds.Generation++
	})
}

func (w *simWorld) onEach(g *simGroup, change func(*appsv1.DaemonSet)) {
	delay := time.Duration(0)
	for _, key := range g.sets {
		w.later(delay, func() { simapi.Edit(w.api, key, change) })
		if w.chance(3) {
			delay += w.seconds(0, 20)
		}
	}
	w.doPlanned()
}

// push gives some members of a group a new version.
func (w *simWorld) push(g *simGroup, bad bool) {
	kind := "good"
	if bad {
		kind = w.badKinds()[w.rng.IntN(len(w.badKinds()))]
	}
	w.versions++
	image := fmt.Sprintf("%s-%d", kind, w.versions)
	must := w.rng.IntN(len(g.sets))
	defer w.keepSpec(g)
	for i := range g.sets {
		if i == must || w.calm || w.chance(2) {
			g.images[i] = append(g.images[i], image)
			w.setImage(g, i, image)
		}
	}
}

// rollBack gives every member of a group its previous template.
func (w *simWorld) rollBack(g *simGroup) {
	if g.spec != nil {
		w.restoreBefore(g)
		return
	}
	for i := range g.sets {
		if n := len(g.images[i]); n > 1 {
			g.images[i] = g.images[i][:n-1]
			w.setImage(g, i, g.images[i][n-2])
		}
	}
}

func (w *simWorld) setImage(g *simGroup, i int, image string) {
	w.say("admin: %s gets %s", g.sets[i], image)
	simapi.Edit(w.api, g.sets[i], func(ds *appsv1.DaemonSet) {
		if ds.Spec.Template.Spec.Containers[0].Image != image {
			ds.Spec.Template.Spec.Containers[0].Image = image
			ds.Generation++
		}
	})
}
