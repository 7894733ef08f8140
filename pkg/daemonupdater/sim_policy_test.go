package daemonupdater

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// Labels that the policies of the model use.
const (
	simPoolLabel = "example.com/pool"
	simRingLabel = "example.com/ring"
	simZoneLabel = "example.com/time-zone"
)

// newSimPolicies returns the generator of a seed's policies, nil for a seed without policies.
func newSimPolicies(seed uint64) *rand.Rand {
	rng := rand.New(rand.NewPCG(seed, 4))
	if rng.IntN(2) == 0 {
		return nil
	}
	return rng
}

// simPick draws one of some values.
func simPick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// drawLabels draws the labels of a node that policies use.
func (w *simWorld) drawLabels(node string) map[string]string {
	if w.policies == nil {
		return nil
	}
	labels := map[string]string{}
	for label, value := range map[string]string{
		simPoolLabel: simPick(w.policies, "p0", "p0", "p1", "p1", "p2", ""),
		simRingLabel: simPick(w.policies, "early", "early", "late", "", ""),
		simZoneLabel: simPick(w.policies, "Asia.Shanghai", "UTC", "", "", "", ""),
		simPick(w.policies, simControlPlaneLabels...): simPick(w.policies, "", "", "", "true"),
	} {
		if value != "" {
			labels[label] = value
		}
	}
	w.say("node %s is labeled %v", node, labels)
	return labels
}

// givePolicy lets most groups of a seed with policies name one.
func (w *simWorld) givePolicy(g *simGroup) {
	if w.policies == nil || w.policies.IntN(4) == 0 {
		return
	}
	g.policy = "policy-" + g.id.Name
	w.writePolicy(g, w.drawPolicy())
	own := w.policies.IntN(2) == 0
	for _, key := range g.sets {
		simapi.Edit(w.api, key, func(ds *appsv1.DaemonSet) {
			ds.Annotations[topsv1.AnnotationUpgradePolicy] = g.policy
			if own {
				delete(ds.Annotations, topsv1.AnnotationMaxUnavailable)
			}
		})
	}
}

func (w *simWorld) policyOf(g *simGroup) *topsv1.UpgradePolicy {
	return simapi.Get[*topsv1.UpgradePolicy](w.api, simapi.Key{Kind: simPolicies, Name: g.policy})
}

// writePolicy creates or changes the policy of a group.
func (w *simWorld) writePolicy(g *simGroup, spec topsv1.UpgradePolicySpec) {
	next := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: g.policy}}
	if stored := w.policyOf(g); stored != nil {
		next = stored.DeepCopy()
	}
	w.backAlone(&spec)
	next.Generation++
	next.Spec = spec
	w.api.Put(next)
	text, _ := json.Marshal(spec) // for the log
	w.say("admin: %s is %s", g.policy, text)
}

// drawPolicy draws some fields of a policy.
func (w *simWorld) drawPolicy() topsv1.UpgradePolicySpec {
	rng := w.policies
	amount := func(values ...string) intstr.IntOrString { return intstr.Parse(simPick(rng, values...)) }
	some := func() bool { return rng.IntN(2) == 0 }
	seconds := func(least, most int32) *int32 { return ptr.To(least + rng.Int32N(most-least+1)) }
	spec := topsv1.UpgradePolicySpec{ControlPlane: simPick(rng, topsv1.ControlPlaneAny, topsv1.ControlPlaneFirst, topsv1.ControlPlaneLast)}
	if rng.IntN(3) > 0 {
		spec.MaxUnavailable = ptr.To(amount("1", "2", "3", "30%", "60%"))
	}
	if some() {
		spec.Pools = &topsv1.PoolPolicy{
			TopologyKey:    simPick(rng, simPoolLabel, simPoolLabel, simPoolLabel, corev1.LabelTopologyZone),
			MaxUnavailable: amount("1", "1", "2", "50%"),
		}
	}
	if some() {
		spec.Waves = w.drawWaves()
	}
	if rng.IntN(3) == 0 {
		spec.ProgressDeadlineSeconds = seconds(60, 900)
	}
	if rng.IntN(3) == 0 {
		spec.LostDeadlineSeconds = seconds(60, 1200)
	}
	if rng.IntN(3) == 0 {
		spec.ReturnedSeconds = seconds(0, 180)
	}
	if some() {
		spec.Failure = &topsv1.FailurePolicy{Threshold: ptr.To(amount("1", "1", "2", "3", "20%", "50%")), Action: topsv1.FailureHalt}
	}
	if rng.IntN(3) == 0 {
		spec.Window = w.drawWindow()
	}
	return spec
}

// drawWaves draws one to three waves.
func (w *simWorld) drawWaves() []topsv1.Wave {
	var waves []topsv1.Wave
	for i := range 1 + w.policies.IntN(3) {
		wave := topsv1.Wave{Name: fmt.Sprint("w", i), Approval: simPick(w.policies, topsv1.ApprovalAutomatic, topsv1.ApprovalAutomatic, topsv1.ApprovalManual)}
		if w.policies.IntN(2) == 0 {
			wave.SoakSeconds = w.policies.Int32N(150)
		}
		if w.policies.IntN(2) == 0 {
			wave.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{simRingLabel: simPick(w.policies, "early", "late", "nowhere")}}
		} else {
			wave.Size = ptr.To(intstr.Parse(simPick(w.policies, "1", "2", "25%", "50%")))
		}
		waves = append(waves, wave)
	}
	return waves
}

// drawWindow draws a window that opens some minutes before or after the rollouts of a seed begin,
// or on another day.
func (w *simWorld) drawWindow() *topsv1.MaintenanceWindow {
	zone := simPick(w.policies, "UTC", "UTC", "Asia/Shanghai", "Asia/Kolkata", "America/St_Johns")
	location, err := time.LoadLocation(zone)
	if err != nil {
		w.violate("the model has no time zone %s: %v", zone, err)
		return nil
	}
	opens := fixture.Epoch.Add(time.Duration(w.policies.IntN(20)-8) * time.Minute).In(location)
	window := &topsv1.MaintenanceWindow{
		Start: opens.Format("15:04"), DurationMinutes: 1 + w.policies.Int32N(20), TimeZone: zone,
		TimeZoneNodeLabel: simPick(w.policies, "", simZoneLabel),
	}
	if w.policies.IntN(3) == 0 {
		window.Days = []topsv1.Weekday{topsv1.Weekday(opens.Format("Mon")), simPick[topsv1.Weekday](w.policies, "Mon", "Sat")}
	}
	return window
}

// breakPolicy makes a policy invalid in a way that the API server admits.
func (w *simWorld) breakPolicy(spec *topsv1.UpgradePolicySpec) {
	if w.policies.IntN(3) == 0 {
		spec.Waves = []topsv1.Wave{{Name: "odd", Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: simRingLabel, Operator: "Near", Values: []string{"early"}}},
		}}}
		return
	}
	spec.Window = &topsv1.MaintenanceWindow{Start: "00:00", DurationMinutes: 1440, TimeZone: simPick(w.policies, "Mars/Olympus", "Local")}
}

// administratePolicies makes one random edit of the policies, or none.
func (w *simWorld) administratePolicies() {
	if w.policies == nil {
		return
	}
	g := simPick(w.policies, w.groups...)
	deed := w.policies.IntN(80)
	if g.policy == "" {
		return
	}
	switch deed {
	case 0, 1, 2:
		spec := w.drawPolicy()
		if w.policies.IntN(4) == 0 {
			w.breakPolicy(&spec)
		}
		w.writePolicy(g, spec)
	case 3:
		w.deletePolicy(g)
	case 4, 5, 6, 7, 8:
		w.approve(g)
	case 9, 10:
		w.resume(g)
	case 11:
		w.relabel(simPick(w.policies, w.hosts...))
	case 12, 13, 14:
		w.annotate(g, topsv1.AnnotationUpgradePolicy, g.policy)
	case 15:
		w.annotate(g, topsv1.AnnotationMaxUnavailable, "")
	}
}

// deletePolicy deletes the policy of a group and creates another one later.
func (w *simWorld) deletePolicy(g *simGroup) {
	w.say("admin: %s is deleted", g.policy)
	w.api.Remove(simapi.Key{Kind: simPolicies, Name: g.policy})
	w.later(time.Duration(5+w.policies.IntN(90))*time.Second, func() { w.writePolicy(g, w.drawPolicy()) })
}

// approve approves the next wave that needs it, for the current revision.
func (w *simWorld) approve(g *simGroup) {
	r, policy := w.rolloutOf(g.id), w.policyOf(g)
	if r == nil || policy == nil {
		return
	}
	for _, wave := range policy.Spec.Waves {
		if entry := r.Status.Revision + "/" + wave.Name; wave.Approval == topsv1.ApprovalManual && !simApproved(r, entry) {
			w.annotateRollout(r, topsv1.AnnotationApprovedWaves, r.Annotations[topsv1.AnnotationApprovedWaves]+","+entry)
			return
		}
	}
}

// resume resumes a halted rollout, and sometimes one that is not halted.
func (w *simWorld) resume(g *simGroup) {
	r := w.rolloutOf(g.id)
	if r != nil && (meta.IsStatusConditionTrue(r.Status.Conditions, topsv1.RolloutHalted) || w.policies.IntN(4) == 0) {
		w.annotateRollout(r, topsv1.AnnotationResume, fmt.Sprint("word-", w.api.Counter))
	}
}

func (w *simWorld) annotateRollout(r *topsv1.DaemonRollout, key, value string) {
	w.say("admin: rollout %s %s=%q", r.Name, key, value)
	simapi.Edit(w.api, simapi.KeyOf(r), func(r *topsv1.DaemonRollout) { metav1.SetMetaDataAnnotation(&r.ObjectMeta, key, value) })
	for _, g := range w.groups {
		if w.api.Schema != nil && g.id.RolloutKey("gcu-system").Name == r.Name {
			w.noteLost(g, simSlots(r)) // any write loses what the API server hides
		}
	}
}

// relabel moves a node to another ring and another time zone, which may be none.
func (w *simWorld) relabel(h *simHost) {
	h.labels[simRingLabel] = simPick(w.policies, "early", "late", "")
	h.labels[simZoneLabel] = simPick(w.policies, "UTC", "Asia.Shanghai", "Mars.Olympus")
	w.say("admin: node %s is labeled %v", h.name, h.labels)
	w.writeLabels(h)
}

func (w *simWorld) writeLabels(h *simHost) {
	simapi.Edit(w.api, simNodeKey(h.name), func(n *corev1.Node) { n.Labels = h.nodeLabels() })
}

// settlePolicies turns every policy into one under which every node reaches the target with the
// help of calmAdministrator, and lets some groups name theirs.
func (w *simWorld) settlePolicies() {
	if w.policies == nil {
		return
	}
	for _, h := range w.hosts {
		if h.labels[simZoneLabel] == "Mars.Olympus" {
			h.labels[simZoneLabel] = "UTC"
		}
		if stored := simapi.Get[*corev1.Node](w.api, simNodeKey(h.name)).Labels; stored[simZoneLabel] == "Mars.Olympus" { // also where a restored backup brought it back
			w.writeLabels(h)
		}
	}
	for _, g := range w.groups {
		if g.policy == "" {
			continue
		}
		w.writePolicy(g, w.calmPolicy())
		if w.policies.IntN(4) > 0 {
			w.annotate(g, topsv1.AnnotationUpgradePolicy, g.policy)
			if w.policies.IntN(2) == 0 {
				w.annotate(g, topsv1.AnnotationMaxUnavailable, "")
			}
		}
	}
}

// calmPolicy draws a policy whose window is open all day. Next to a node that never reaches the
// target, its budget leaves a slot, and no wave waits for that node.
func (w *simWorld) calmPolicy() topsv1.UpgradePolicySpec {
	spec := w.drawPolicy()
	spec.ProgressDeadlineSeconds, spec.LostDeadlineSeconds = nil, nil
	if spec.Window != nil {
		spec.Window.Start, spec.Window.DurationMinutes, spec.Window.Days = "00:00", 1440, nil
	}
	if w.stuck+w.guarded() == "" {
		return spec
	}
	spec.MaxUnavailable, spec.Waves = ptr.To(intstr.FromInt32(2)), nil
	if spec.Pools != nil {
		spec.Pools.MaxUnavailable = intstr.FromInt32(2)
	}
	return spec
}

// calmAdministrator resumes rollouts of templates that were rejected and set again, and eventually approves
// every wave and resumes halted rollouts.
func (w *simWorld) calmAdministrator() {
	for _, g := range w.groups {
		r := w.rolloutOf(g.id)
		if r == nil {
			continue
		}
		w.approveBatch(g)
		w.freePinned(r)
		if c := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutAccepted); c != nil && c.Reason == topsv1.ReasonRevisionRejected {
			w.annotateRollout(r, topsv1.AnnotationResume, fmt.Sprint("again-", w.api.Counter))
		}
	}
	w.skipsCards()
	if w.policies == nil || w.policies.IntN(10) > 0 {
		return
	}
	for _, g := range w.groups {
		w.approve(g)
		if r := w.rolloutOf(g.id); r != nil && meta.IsStatusConditionTrue(r.Status.Conditions, topsv1.RolloutHalted) {
			w.resume(g)
		}
	}
}

// simApproved reports whether the annotation of a rollout has an entry.
func simApproved(r *topsv1.DaemonRollout, entry string) bool {
	return slices.Contains(simApprovals(r), entry)
}
