package daemonupdater

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/simapi"
)

// In a third of the seeds with operations, persons write plans, edit, delete and approve them, and upgrade with
// them. What a plan may do is checked by its text: only nodes and components that it has, batch by batch. Managers die
// in the middle of a plan as well, and what the next one does of it is checked in the same way.

// newSimPlans returns the generator of a seed's plans, nil for a seed without any.
func newSimPlans(seed uint64) *rand.Rand {
	rng := rand.New(rand.NewPCG(seed, 15))
	if rng.IntN(3) != 0 {
		return nil
	}
	return rng
}

func simPlanKey(g *simGroup) simapi.Key {
	return simapi.Key{Kind: simPlans, Name: "plan-" + g.id.Name}
}

// administratePlans makes one random edit about plans, or none.
func (w *simWorld) administratePlans() {
	if w.plans == nil || w.ops == nil {
		return
	}
	g := simPick(w.plans, w.groups...)
	deed := w.plans.IntN(40)
	if !simPlannable(g) {
		return
	}
	switch deed {
	case 0, 1:
		w.push(g, w.chance(w.knobs.bad))
		w.follow(g, w.drawPlan(g))
	case 2:
		w.follow(g, w.drawPlan(g))
	case 3:
		w.dropPlan(g)
	case 4:
		if w.api.Objects[simPlanKey(g)] != nil {
			w.writePlan(g, w.drawPlan(g))
		}
	case 5:
		w.say("admin: %s is deleted", simPlanKey(g))
		w.api.Remove(simPlanKey(g))
	case 6, 7, 8, 9:
		w.approveBatch(g)
	}
}

// simPlannable reports whether a group is a gr all of whose components can be in a plan.
func simPlannable(g *simGroup) bool {
	known := upgradeplan.DefaultBook().Components()
	return g.spec != nil && !slices.ContainsFunc(g.sets, func(key simapi.Key) bool { return !slices.Contains(known, key.Name) })
}

// follow writes a plan, and has a gr follow it.
func (w *simWorld) follow(g *simGroup, spec topsv1.UpgradePlanSpec) {
	w.writePlan(g, spec)
	w.annotate(g, topsv1.AnnotationUpgradePlan, simPlanKey(g).Name)
}

// dropPlan has a gr follow no plan.
func (w *simWorld) dropPlan(g *simGroup) {
	if w.plans != nil && g.spec != nil {
		w.annotate(g, topsv1.AnnotationUpgradePlan, "")
	}
}

func (w *simWorld) writePlan(g *simGroup, spec topsv1.UpgradePlanSpec) {
	key := simPlanKey(g)
	next := &topsv1.UpgradePlan{}
	if stored := simapi.Get[*topsv1.UpgradePlan](w.api, key); stored != nil {
		next = stored.DeepCopy()
	}
	next.Name = key.Name
	next.Generation++
	next.Spec = spec
	w.api.Put(next)
	w.say("admin: %s is for %s: %v", key, spec.Revision, spec.Batches)
}

// drawPlan draws a plan for the spec of a gr: some nodes, or all, and some of their components.
func (w *simWorld) drawPlan(g *simGroup) topsv1.UpgradePlanSpec {
	var names []string
	for _, h := range w.hosts {
		if w.plans.IntN(5) > 0 {
			names = append(names, h.name)
		}
	}
	if len(names) == 0 {
		names = append(names, w.hosts[0].name)
	}
	spec := w.planOf(g, names, func(component string) bool { return w.plans.IntN(4) > 0 })
	for i := range spec.Jobs {
		if w.plans.IntN(3) == 0 {
			simLeaveOptional(&spec.Jobs[i])
		}
	}
	return spec
}

// simLeaveOptional removes the tasks that a person may leave out.
func simLeaveOptional(job *topsv1.PlannedJob) {
	optional := func(task string) bool {
		return strings.HasSuffix(task, "_"+upgradeplan.ActionPrepull) || strings.HasSuffix(task, "_"+upgradeplan.ActionSoak)
	}
	for i := range job.Stages {
		job.Stages[i] = slices.DeleteFunc(slices.Clone(job.Stages[i]), optional)
	}
	job.Stages = slices.DeleteFunc(job.Stages, func(s topsv1.PlannedStage) bool { return len(s) == 0 })
}

// planOf plans nodes in batches, and some of the components of a gr on each, at least one.
func (w *simWorld) planOf(g *simGroup, names []string, has func(component string) bool) topsv1.UpgradePlanSpec {
	nodes, list := map[string]upgradeplan.Node{}, []upgradeplan.Node(nil)
	for _, name := range names {
		n := upgradeplan.Node{Name: name}
		for _, key := range g.sets {
			if n.Deployed = append(n.Deployed, key.Name); has(key.Name) {
				n.Changed = append(n.Changed, key.Name)
			}
		}
		if len(n.Changed) == 0 {
			n.Changed = n.Deployed[:1]
		}
		nodes[name] = n
		list = append(list, n)
	}
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), list, 1+w.plans.IntN(3))
	if err != nil {
		w.violate("the model cannot plan: %v", err)
	}
	spec, err := planfile.Of(upgradeplan.DefaultBook(), mission, nodes, nil, 60)
	if err != nil {
		w.violate("the model cannot write a plan: %v", err)
	}
	spec.GcuResource, spec.Revision = g.id.Name, g.spec.revision
	for i := range spec.Batches {
		if w.plans.IntN(3) == 0 {
			spec.Batches[i].Approval = topsv1.ApprovalManual
		}
	}
	if w.plans.IntN(3) == 0 {
		spec.Before = w.tasksBefore()
	}
	w.plans.Shuffle(len(spec.Batches), func(i, j int) { spec.Batches[i], spec.Batches[j] = spec.Batches[j], spec.Batches[i] })
	return spec
}

// approveBatch approves the first batch of the plan of a gr that needs it, in all waves.
func (w *simWorld) approveBatch(g *simGroup) {
	if w.plans == nil || g.spec == nil {
		return
	}
	r, plan := w.rolloutOf(g.id), simapi.Get[*topsv1.UpgradePlan](w.api, simPlanKey(g))
	if r == nil || plan == nil {
		return
	}
	for i := range plan.Spec.Batches {
		b := &plan.Spec.Batches[i]
		for _, progress := range r.Status.Waves {
			if !strings.HasSuffix(progress.Name, plan.Name+"/"+b.Name) {
				continue
			}
			if entry := simBatchEntry(r, progress.Name); b.Approval == topsv1.ApprovalManual && !simApproved(r, entry) {
				w.approvals[simApproval{r.Status.Revision, progress.Name, r.Status.LimitedTo}] = true
				w.annotateRollout(r, topsv1.AnnotationApprovedWaves, r.Annotations[topsv1.AnnotationApprovedWaves]+","+entry)
				if !w.calm && w.plans.IntN(3) == 0 {
					w.swapBatches(g, plan, i)
				}
				return
			}
		}
	}
}

// swapBatches edits a plan: another batch and the one that was just approved swap their nodes.
func (w *simWorld) swapBatches(g *simGroup, plan *topsv1.UpgradePlan, approved int) {
	spec := plan.DeepCopy().Spec
	of, with := &spec.Batches[approved], &spec.Batches[w.plans.IntN(len(spec.Batches))]
	of.Jobs, with.Jobs = with.Jobs, of.Jobs
	w.writePlan(g, spec)
}

// simApproval is the approval of a batch by a person: of a part of a plan, as the plan was then.
type simApproval struct{ revision, part, plan string }

// simBatchEntry returns what a person approves of the part of a plan that a rollout waits with.
func simBatchEntry(r *topsv1.DaemonRollout, part string) string {
	return r.Status.Revision + "/" + rollout.BatchApproval(part, r.Status.LimitedTo)
}

// settlePlans has some grs go to their last version by a plan of all nodes and components.
func (w *simWorld) settlePlans() {
	if w.plans == nil || w.ops == nil || w.orderly || w.stuck+w.guarded() != "" {
		return
	}
	var names []string
	for _, h := range w.hosts {
		names = append(names, h.name)
	}
	for _, g := range w.groups {
		if simPlannable(g) && w.plans.IntN(2) == 0 {
			w.follow(g, w.planOf(g, names, func(string) bool { return true }))
		}
	}
}

// plansAreDone checks the results of the plans with which the grs got to their last version.
func (w *simWorld) plansAreDone() bool {
	if w.plans == nil || w.ops == nil {
		return true
	}
	return w.until("plan: its result says that every node is done", time.Hour, func() bool {
		for _, g := range w.groups {
			plan := simapi.Get[*topsv1.UpgradePlan](w.api, simPlanKey(g))
			if plan == nil || g.spec == nil || !w.isFollowed(g, plan) {
				continue
			}
			if int(plan.Status.Done) != len(w.hosts) || plan.Status.Fail+plan.Status.Undo > 0 || plan.Status.ObservedGeneration != plan.Generation {
				return false
			}
		}
		return true
	})
}

// isFollowed reports whether a plan is that of the spec that a gr has, and in force.
func (w *simWorld) isFollowed(g *simGroup, plan *topsv1.UpgradePlan) bool {
	set := w.api.Objects[g.sets[0]].GetAnnotations()
	return set[topsv1.AnnotationUpgradePlan] == plan.Name && set[topsv1.AnnotationRevision] == plan.Spec.Revision
}

// planName returns the plan that the settings name which a pass saw, "" for none.
func (p *simPass) planName() string {
	if len(p.sets) == 0 {
		return ""
	}
	return p.sets[0].Annotations[topsv1.AnnotationUpgradePlan]
}

// undoes reports whether a pass saw a good spec of a gr in place of the one that a rollout rejected: no plan is needed for it.
func (p *simPass) undoes(r *topsv1.DaemonRollout) bool {
	rb := r.Status.Rollback
	return rb != nil && !slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		return ds.Annotations[topsv1.AnnotationRejectedRevision] != rb.RejectedRevision
	})
}

// planned returns the batch of a node in the plan that a pass saw and the tasks of its job, -1 if it has none.
func (p *simPass) planned(node string) (batch int, stages []topsv1.PlannedStage) {
	for i, b := range p.plan.Spec.Batches {
		for _, of := range b.Jobs {
			if slices.Contains(of.Nodes, node) {
				job := slices.IndexFunc(p.plan.Spec.Jobs, func(j topsv1.PlannedJob) bool { return j.Name == of.Job })
				return i, p.plan.Spec.Jobs[job].Stages
			}
		}
	}
	return -1, nil
}

// cutsPlan reports whether a manager that dies in this pass dies in the middle of a plan: it is followed, and nodes
// are in flight.
func (p *simPass) cutsPlan() bool {
	if p.planName() == "" || p.planWrong() != "" {
		return false
	}
	r := p.w.rolloutOf(p.group)
	return r != nil && !p.undoes(r) && len(r.Status.InFlight) > 0
}

// planWrong returns why nothing may start by the plan that a pass saw, "" if it may.
func (p *simPass) planWrong() string {
	if p.plan == nil {
		return "does not exist"
	}
	for _, ds := range p.sets {
		if ds.Annotations[topsv1.AnnotationRevision] != p.plan.Spec.Revision {
			return "is for another spec than that of " + ds.Name
		}
	}
	return ""
}

// checkPlanned checks that a pod is deleted only if the plan in force has its component on its node. back: for
// another reason than the upgrade.
func (w *simWorld) checkPlanned(pass *simPass, pod *corev1.Pod, back bool) {
	stored := w.rolloutOf(pass.group)
	if pass.planName() == "" || back || stored == nil || pass.undoes(stored) || pass.blind {
		return
	}
	if wrong := pass.planWrong(); wrong != "" {
		w.violate("plan: pod %s is deleted though the plan %s", pod.Name, wrong)
		return
	}
	_, stages := pass.planned(daemonset.NodeName(pod))
	task := simOwner(pod).Name + "_" + upgradeplan.ActionReplace
	if !slices.ContainsFunc(stages, func(s topsv1.PlannedStage) bool { return slices.Contains(s, task) }) {
		w.violate("plan: pod %s is deleted, and the plan does not replace its component there", pod.Name)
	}
}

// checkPlanStarts checks that nodes start only by the plan in force: in the turn of their batch, which is approved.
func (w *simWorld) checkPlanStarts(pass *simPass, after *topsv1.DaemonRollout, started []string) {
	if pass.planName() == "" || pass.undoes(after) || after.Status.Strategy == "RestartsOnly" {
		return
	}
	if wrong := pass.planWrong(); wrong != "" {
		w.violate("plan: %v start though the plan %s", started, wrong)
		return
	}
	w.checkTasksBefore(pass, started)
	settings, _ := daemonset.SettingsOf(pass.sets[0])
	for _, name := range started {
		batch, _ := pass.planned(name)
		switch {
		case batch < 0 && pass.atTargets(&after.Status, name): // its runtime only has to be restarted
		case batch < 0:
			w.violate("plan: %s starts, and is not in the plan", name)
		case settings.Strategy == daemonset.OTA:
		case pass.healthy(name) || pass.wasHealthy(name):
			w.checkBatch(pass, after, name, batch)
		case pass.untouched(after, name):
			w.checkApprovals(pass, after, name, batch)
		}
	}
}
