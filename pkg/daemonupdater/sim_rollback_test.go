package daemonupdater

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/test/simapi"
)

// simBack is a policy that rolls back after the first failed node.
const simBack = "back"

// rollbacks is chaos among mostly bad versions, under a policy that rolls back.
func (w *simWorld) rollbacks() {
	w.knobs = w.randomKnobs()
	w.knobs.bad, w.knobs.admin, w.knobs.ota = 1+w.rng.IntN(2), 30+w.rng.IntN(60), false
	w.populate(3 + w.rng.IntN(7))
	w.goBackByThemselves()
	for range 150 + w.rng.IntN(150) {
		if w.chance(20) {
			w.goBackByThemselves()
		}
		if w.chance(30) {
			w.push(w.groups[0], w.chance(2))
		}
		w.step()
		if w.failed() {
			return
		}
	}
	w.settle()
	w.stuck = ""
	for _, pod := range w.setPods() {
		w.setFinalizer(simapi.KeyOf(pod), false)
	}
	w.goBackByThemselves()
	for _, g := range w.groups {
		w.badAtLast(g, 0, simPick(w.rng, "crash", "hang", "relapse", simSlowly))
	}
	if !w.failed() {
		w.finale()
	}
}

// goBackByThemselves gives every group the policy that rolls back after the first failed node.
func (w *simWorld) goBackByThemselves() {
	if w.api.Objects[simapi.Key{Kind: simPolicies, Name: simBack}] == nil {
		w.api.Put(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: simBack}, Spec: topsv1.UpgradePolicySpec{
			Failure: &topsv1.FailurePolicy{Action: topsv1.FailureRollback, Threshold: &intstr.IntOrString{IntVal: 1}, MinFailedNodes: 1}}})
	}
	for _, g := range w.groups {
		w.annotate(g, topsv1.AnnotationUpgradePolicy, simBack)
	}
}

// badAtLast pushes a bad version on top of a good one: it has to be rolled back, and every set of
// the group gets its former image.
func (w *simWorld) badAtLast(g *simGroup, set int, kind string, meanwhile ...func(*simGroup)) {
	if !w.until("L1: every node gets to a good target", 6*time.Hour, w.good) {
		return
	}
	w.dropPlan(g)
	was, undone := w.imagesOf(g), w.undone
	w.versions++
	w.setImage(g, set, fmt.Sprint(kind, "-", w.versions))
	w.keepSpec(g)
	for _, happens := range meanwhile {
		happens(g)
	}
	w.until("rollback: the good version is back", 6*time.Hour, func() bool {
		r := w.rolloutOf(g.id).Status.Rollback
		return w.good() && (r == nil || r.CompletedTime != nil) && slices.Equal(w.imagesOf(g), was)
	})
	if w.undone == undone && !w.failed() {
		w.violate("rollback: the good version of %s is back, and no manager brought it back", g.id)
	}
}

// imagesOf returns the images of the sets of a group.
func (w *simWorld) imagesOf(g *simGroup) []string {
	var images []string
	for _, key := range g.sets {
		images = append(images, simapi.Get[*appsv1.DaemonSet](w.api, key).Spec.Template.Spec.Containers[0].Image)
	}
	return images
}

// good reports whether every node is at the target, and the target is known to be good.
func (w *simWorld) good() bool {
	return w.arrived() && w.everyRollout(func(r *topsv1.DaemonRollout) bool {
		good := r.Status.LastKnownGood
		return good != nil && good.Revision == r.Status.Revision && len(r.Status.InFlight) == 0
	})
}

// simTemplateOf returns what the DaemonSet controller stores in a revision.
func simTemplateOf(ds *appsv1.DaemonSet) runtime.RawExtension {
	data, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": ds.Spec.Template}}) // it has plain fields only
	return runtime.RawExtension{Raw: data}
}

// Patch is served by the API server: of a DaemonSet, to roll it back.
func (c *simClient) Patch(_ context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := (&client.PatchOptions{}).ApplyOptions(opts)
	validation, key, pass := options.FieldValidation, simapi.KeyOf(object), c.m.pass
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	if len(options.DryRun) > 0 {
		return c.m.call(simDryRun, key, func() error { return nil })
	}
	return c.m.call("patch", key, func() error {
		switch key.Kind {
		case simPods:
			return c.m.w.releaseByUs(pass, object, patch.Type(), data)
		case simUpgrades:
			return c.m.w.api.Validated(validation, func() error { return c.m.w.orderByUs(pass, object, patch.Type(), data) })
		case simGrs:
			c.m.w.violate("rollback: gr %s is changed: its spec and its annotations are a person's", key.Name)
			return nil
		}
		return c.m.w.undoByUs(pass, object, patch.Type(), data)
	})
}

// undoByUs is a rollback by a manager.
func (w *simWorld) undoByUs(pass *simPass, object client.Object, kind types.PatchType, data []byte) error {
	before := simapi.Get[*appsv1.DaemonSet](w.api, simapi.KeyOf(object))
	if err := w.api.Patch(object, kind, data, simapi.Spec, ""); err != nil {
		return err
	}
	after := simapi.Get[*appsv1.DaemonSet](w.api, simapi.KeyOf(object))
	w.checkUndo(pass, before, after)
	w.undone++
	w.say("%s is rolled back to %s", after.Name, after.Spec.Template.Spec.Containers[0].Image)
	return nil
}

// checkUndo checks a rollback against the true state. If a manager was suspended between its last
// check of the ledger and the patch, another one may have decided otherwise since.
func (w *simWorld) checkUndo(pass *simPass, before, after *appsv1.DaemonSet) {
	name := before.Namespace + "/" + before.Name
	rollout := w.rolloutOf(pass.group)
	if rollout == nil || rollout.Status.Rollback == nil || rollout.Status.LastKnownGood == nil {
		if pass.until.IsZero() {
			w.violate("rollback: %s is changed though no rollback is stored", name)
		}
		return
	}
	rb := rollout.Status.Rollback
	to := simImageHash(after.Spec.Template.Spec.Containers[0].Image)
	switch {
	case before.Annotations[topsv1.AnnotationPaused] == "true":
		w.violate("rollback: %s is changed while paused", name)
	case before.Annotations[topsv1.AnnotationUpgradePolicy] != simBack:
		w.violate("rollback: %s is changed though its policy is %q", name, before.Annotations[topsv1.AnnotationUpgradePolicy])
	case rb.From != simRevisionOf(name+"="+w.newestHash(before)):
		w.violate("rollback: %s is changed though it is not at %s, which failed", name, rb.From)
	case rb.To != simRevisionOf(name+"="+to) || report.TargetIn(rollout.Status.LastKnownGood.Targets, name) != to:
		w.violate("rollback: %s gets %s, which is not known to be good", name, to)
	case rb.From == rb.To:
		w.violate("rollback: %s goes back to what failed", name)
	}
}

// checkGood checks that a spec becomes the last known good one only with the revisions that the DaemonSet controller made of it.
func (w *simWorld) checkGood(pass *simPass, before, after *topsv1.DaemonRollout) {
	good := after.Status.LastKnownGood
	if good != nil && !equality.Semantic.DeepEqual(before.Status.LastKnownGood, good) {
		w.checkWorks(pass, good)
	}
	of := slices.IndexFunc(w.groups, func(g *simGroup) bool { return g.id == pass.group })
	if good == nil || of < 0 || w.groups[of].spec == nil || equality.Semantic.DeepEqual(before.Status.LastKnownGood, good) {
		return
	}
	g := w.groups[of]
	for i, key := range g.sets {
		hash, images := report.TargetIn(good.Targets, key.Namespace+"/"+key.Name), g.spec.images[good.GcuResourceRevision]
		if hash == "" || i >= len(images) || strings.TrimSuffix(hash, "gated") == simImageHash(images[i]) || !w.isAsSpecified(g) {
			continue
		}
		w.violate("rollback: %s is good with %s of %s, which has %s", good.GcuResourceRevision, hash, key.Name, simImageHash(images[i]))
	}
}

// checkWorks checks that no version is known to be good whose containers are known to crash, or to hang. Whether a driver loads is known only
// after an operation.
func (w *simWorld) checkWorks(pass *simPass, good *topsv1.KnownGoodRevision) {
	if slices.ContainsFunc(w.managers, func(m *simManager) bool { return !m.jumped.IsZero() }) { // what was recorded a moment ago may be taken for old
		return
	}
	progress, _ := pass.deadlines()
	for _, pod := range w.setPods() {
		owner := simOwner(pod)
		if owner == nil || !w.isOfSet(pod, owner.UID) || report.TargetIn(good.Targets, pod.Namespace+"/"+owner.Name) != daemonset.RevisionHash(pod) || daemonset.AwaitsUpgrade(pod) || daemonset.IsPlaceholder(pod) {
			continue
		}
		node := simapi.Get[*corev1.Node](w.api, simNodeKey(daemonset.NodeName(pod)))
		if node == nil || !simKeeps(node, w.setOf(pod)) { // nodes that leave take along what they showed
			continue
		}
		image, ran := pod.Spec.Containers[0].Image, pass.at.Sub(pod.CreationTimestamp.Time)-w.startOf(pod)-simLag
		kind, _, _ := strings.Cut(image, "-")
		restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 }) // its node may be down
		if kind == "relapse" && w.relapsesAfter(image) < min(ran, progress) && restarted || ran > 0 && slices.Contains([]string{"crash", "hang"}, kind) {
			w.violate("rollback: %s is known to be good: pod %s was created %s ago", image, pod.Name, pass.at.Sub(pod.CreationTimestamp.Time))
		}
	}
}

// isOfSet reports whether the DaemonSet with the name of a pod's owner has a UID: there may be another one since.
func (w *simWorld) isOfSet(pod *corev1.Pod, uid types.UID) bool {
	ds := w.setOf(pod)
	return ds != nil && ds.UID == uid
}

// simLag is how old what a manager reads may be.
const simLag = time.Minute

// isAsSpecified reports whether the sets of a gr have the images of its spec: a schedule may change them alone.
func (w *simWorld) isAsSpecified(g *simGroup) bool {
	for i, key := range g.sets {
		is := simapi.Get[*appsv1.DaemonSet](w.api, key)
		if is == nil {
			return false
		}
		images := g.spec.images[is.Annotations[topsv1.AnnotationRevision]]
		if i >= len(images) || images[i] != is.Spec.Template.Spec.Containers[0].Image {
			return false
		}
	}
	return true
}

// simRevisionOf returns the revision of a group whose only DaemonSet has a target, given in
// target.
func simRevisionOf(target string) string {
	sum := sha256.Sum256([]byte(target))
	return hex.EncodeToString(sum[:5])
}
