package daemonupdater

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// simBack is a policy that goes back after the first failed node.
const simBack = "back"

// TestSimulationOfRollbacks plays rollouts under a policy with failure.action
// Rollback, with all disturbances; at the end a bad version has to be rolled back.
func TestSimulationOfRollbacks(t *testing.T) {
	klog.SetOutput(io.Discard)
	seeds := *simSeeds / 5
	if testing.Short() {
		seeds = min(seeds, 20)
	}
	rolledBack := 0
	for seed := 1; seed <= seeds && !t.Failed(); seed++ {
		w := play(t, uint64(seed), (*simWorld).rollbacks)
		if len(w.violations) > 0 {
			t.Errorf("seed %d: %s\n%s", seed, w.violations[0], strings.Join(w.history[max(0, len(w.history)-60):], "\n"))
		}
		rolledBack += w.undone
	}
	if rolledBack < seeds/2 && !t.Failed() {
		t.Errorf("%d rollbacks in %d seeds, want at least one in every second", rolledBack, seeds)
	}
}

// rollbacks is chaos among versions most of which are bad.
func (w *simWorld) rollbacks() {
	w.knobs = w.randomKnobs()
	w.knobs.bad, w.knobs.admin, w.knobs.ota = 1+w.rng.IntN(2), 30+w.rng.IntN(60), false
	w.populate(3 + w.rng.IntN(7))
	if w.groups[len(w.groups)-1].id.Kind != kindDaemonSet {
		return // the model has no gcuresource controller
	}
	w.addRollbackPolicy()
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
	for _, pod := range simAll[*corev1.Pod](w.api, simPods) {
		w.setFinalizer(simKeyOf(pod), false)
	}
	w.goBackByThemselves()
	if w.until("L1: every node gets to a good target", 4*time.Hour, w.good) {
		w.badAtLast()
	}
	if !w.failed() {
		w.finale()
	}
}

// addRollbackPolicy makes the policy that goes back after the first failed node.
func (w *simWorld) addRollbackPolicy() {
	w.api.put(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: simBack}, Spec: topsv1.UpgradePolicySpec{
		Failure: &topsv1.FailurePolicy{Action: topsv1.FailureRollback, Threshold: &intstr.IntOrString{IntVal: 1}}}})
}

func (w *simWorld) goBackByThemselves() {
	for _, g := range w.groups {
		w.annotate(g, topsv1.AnnotationUpgradePolicy, simBack)
	}
}

// badAtLast pushes a bad version of what is known to be good: it has to be rolled back.
func (w *simWorld) badAtLast() {
	for _, g := range w.groups {
		was := simGet[*appsv1.DaemonSet](w.api, g.sets[0]).Spec.Template.Spec.Containers[0].Image
		w.versions++
		w.setImage(g, 0, []string{"crash", "hang"}[w.rng.IntN(2)]+fmt.Sprint("-", w.versions))
		w.until("rollback: the good version is back", 4*time.Hour, func() bool {
			r := w.rolloutOf(g.id).Status.Rollback
			return w.good() && r != nil && r.CompletedTime != nil &&
				simGet[*appsv1.DaemonSet](w.api, g.sets[0]).Spec.Template.Spec.Containers[0].Image == was
		})
	}
}

// good: every node is at the target, and that is known to be good.
func (w *simWorld) good() bool {
	return w.arrived() && w.everyRollout(func(r *topsv1.DaemonRollout) bool {
		good := r.Status.LastKnownGood
		return good != nil && good.Revision == r.Status.Revision && len(r.Status.InFlight) == 0
	})
}

// simTemplateOf is what the DaemonSet controller stores in a revision.
func simTemplateOf(ds *appsv1.DaemonSet) runtime.RawExtension {
	data, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": ds.Spec.Template}}) // of plain fields
	return runtime.RawExtension{Raw: data}
}

// Patch is served by the API server: of a DaemonSet, to roll it back.
func (c *simClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	key, pass := simKeyOf(object), c.m.pass
	return c.m.call("patch", key, func() error {
		switch key.kind {
		case simUpgrades:
			return c.m.w.orderByUs(object, patch.Type(), data)
		case simGrs:
			before := simGet[*topsv1.GcuResource](c.m.w.api, key)
			if err := c.m.w.api.patch(object, patch.Type(), data, "ObjectMeta"); err != nil {
				return err
			}
			c.m.w.checkAsked(before, simGet[*topsv1.GcuResource](c.m.w.api, key))
			return nil
		}
		return c.m.w.undoByUs(pass, key, patch.Type(), data)
	})
}

// undoByUs is a rollback by a manager; the checks see the true state just before.
func (w *simWorld) undoByUs(pass *simPass, key simKey, kind types.PatchType, data []byte) error {
	stored := simGet[*appsv1.DaemonSet](w.api, key)
	if stored == nil {
		return apierrors.NewNotFound(simResource(key), key.name)
	}
	if kind != types.StrategicMergePatchType {
		return fmt.Errorf("the model knows no patch of type %s", kind)
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, data, stored)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var next appsv1.DaemonSet
	if err := json.Unmarshal(after, &next); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if next.ResourceVersion != stored.ResourceVersion || next.UID != stored.UID {
		return simConflict(key, "the object has been modified")
	}
	w.checkUndo(pass, stored, &next)
	next.Generation++
	w.undone++
	w.say("%s is rolled back to %s", key, next.Spec.Template.Spec.Containers[0].Image)
	w.api.put(&next)
	return nil
}

// checkUndo holds a rollback against the true state. A manager that slept between
// its last look at the ledger and the patch may find that another one thinks
// otherwise by now.
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
	to := fmt.Sprintf("%08x", uint32(simHashOf(after.Spec.Template.Spec.Containers[0].Image)))
	switch {
	case before.Annotations[topsv1.AnnotationPaused] == "true":
		w.violate("rollback: %s is changed while paused", name)
	case before.Annotations[topsv1.AnnotationUpgradePolicy] != simBack:
		w.violate("rollback: %s is changed though its policy is %q", name, before.Annotations[topsv1.AnnotationUpgradePolicy])
	case rb.From != revisionOf([]string{name + "=" + w.newestHash(before)}):
		w.violate("rollback: %s is changed though it is not at %s, which failed", name, rb.From)
	case rb.To != revisionOf([]string{name + "=" + to}) || targetIn(rollout.Status.LastKnownGood, name) != to:
		w.violate("rollback: %s gets %s, which is not known to be good", name, to)
	case rb.From == rb.To:
		w.violate("rollback: %s goes back to what failed", name)
	}
}
