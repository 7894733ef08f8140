package daemonupdater

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Each wave of a policy is divided into the batches of a plan, and each part is followed as a wave (ADR 0019).

// checkBatch checks what comes before the batch of a node, as the ledger has it: the batches before in its wave, all of
// the waves before, and approvals. The soak of a wave follows its last part.
func (w *simWorld) checkBatch(pass *simPass, after *topsv1.DaemonRollout, name string, batch int) {
	waves, of := w.checkApprovals(pass, after, name, batch)
	for i, part := range after.Status.Waves[:of] {
		wave := pass.waveOfPart(part.Name)
		if part.CompletedTime == nil {
			w.violate("plan: %s of batch %d starts, and %s is not complete", name, batch, part.Name)
		}
		if next := pass.waveOfPart(after.Status.Waves[i+1].Name); wave != nil && next != wave && w.isPlanned(pass, waves, wave) {
			if since, soaked := w.account(pass.group).soaked(pass, part.Name, wave.SoakSeconds); !soaked {
				w.violate("plan: %s of batch %d starts, and wave %s is complete for %s and soaks %d s", name, batch, wave.Name, since, wave.SoakSeconds)
			}
		}
	}
}

// checkApprovals checks that the parts of a plan up to that of a node are approved, and returns the waves, and the place of
// its part. A batch of which the pass saw no node needs no approval, a wave does.
func (w *simWorld) checkApprovals(pass *simPass, after *topsv1.DaemonRollout, name string, batch int) (waves map[string]int, of int) {
	waves = pass.planWaves()
	of = slices.IndexFunc(after.Status.Waves, func(s topsv1.WaveStatus) bool { return s.Name == pass.partOf(waves, name) })
	if of < 0 {
		w.violate("plan: %s of batch %d starts, and the ledger does not have its part of the plan", name, batch)
		return waves, 0
	}
	for _, part := range after.Status.Waves[:of+1] {
		has := slices.ContainsFunc(pass.fleet(), func(node string) bool { return pass.partOf(waves, node) == part.Name })
		if b := pass.batchOfPart(part.Name); has && b != nil && b.Approval == topsv1.ApprovalManual && !w.isApproved(pass, after, part.Name) {
			w.violate("plan: %s of batch %d starts, and %s is not approved", name, batch, part.Name)
		}
		if wave := pass.waveOfPart(part.Name); wave != nil && wave.Approval == topsv1.ApprovalManual && !simApproved(after, after.Status.Revision+"/"+wave.Name) {
			w.violate("plan: %s of batch %d starts, and wave %s is not approved", name, batch, wave.Name)
		}
	}
	return waves, of
}

// untouched reports whether the pass saw all pods of a node that is not in service, and none of them at its target or going.
func (p *simPass) untouched(after *topsv1.DaemonRollout, node string) bool {
	return !p.seen.disturbed(node) && !slices.ContainsFunc(p.sets, func(ds *appsv1.DaemonSet) bool {
		pod := p.pod(ds, node)
		return p.belongs(ds, node) && (pod == nil || pod.DeletionTimestamp != nil || slices.ContainsFunc(after.Status.Targets, func(t topsv1.RevisionTarget) bool {
			return t.DaemonSet == ds.Namespace+"/"+ds.Name && t.Hash == daemonset.RevisionHash(pod)
		}))
	})
}

// isApproved reports whether a person approved a batch of the plan that a pass saw, at its generation, and the rollout
// has that.
func (w *simWorld) isApproved(pass *simPass, r *topsv1.DaemonRollout, part string) bool {
	plan := fmt.Sprintf("plan=%s %s/%d", pass.plan.Name, pass.plan.UID, pass.plan.Generation)
	return w.approvals[simApproval{r.Status.Revision, part, plan}] && simApproved(r, simBatchEntry(r, part))
}

// isPlanned reports whether the plan that a pass saw has a node of a wave: else the wave does not soak.
func (w *simWorld) isPlanned(pass *simPass, waves map[string]int, wave *topsv1.Wave) bool {
	return slices.ContainsFunc(w.hosts, func(h *simHost) bool {
		part := pass.partOf(waves, h.name)
		return part != "" && pass.waveOfPart(part) == wave
	})
}

// planWaves returns the wave of every node, nil without waves.
func (p *simPass) planWaves() map[string]int {
	if p.policy == nil || len(p.policy.Spec.Waves) == 0 {
		return nil
	}
	return p.waves()
}

// partOf returns the name of the part of the plan that a node is in, "" if it is in none.
func (p *simPass) partOf(waves map[string]int, node string) string {
	batch, _ := p.planned(node)
	of, known := waves[node]
	switch {
	case batch < 0 || waves != nil && !known:
		return ""
	case waves == nil:
		return p.plan.Name + "/" + p.plan.Spec.Batches[batch].Name
	case of == len(p.policy.Spec.Waves):
		return "rest/" + p.plan.Name + "/" + p.plan.Spec.Batches[batch].Name
	}
	return p.policy.Spec.Waves[of].Name + "/" + p.plan.Name + "/" + p.plan.Spec.Batches[batch].Name
}

// batchOfPart returns the batch of a part, nil for the nodes that are in none.
func (p *simPass) batchOfPart(part string) *topsv1.PlannedBatch {
	for i := range p.plan.Spec.Batches {
		if b := &p.plan.Spec.Batches[i]; strings.HasSuffix("/"+part, "/"+p.plan.Name+"/"+b.Name) {
			return b
		}
	}
	return nil
}

// waveOfPart returns the wave of a part, nil for the rest.
func (p *simPass) waveOfPart(part string) *topsv1.Wave {
	if p.policy == nil {
		return nil
	}
	for i := range p.policy.Spec.Waves {
		if wave := &p.policy.Spec.Waves[i]; strings.HasPrefix(part, wave.Name+"/"+p.plan.Name+"/") {
			return wave
		}
	}
	return nil
}

// checkBatches checks that a part of a plan, a batch or the nodes of one in a wave, becomes complete only after those
// before it, and if its reachable nodes, and those that were touched, have what the plan gives them.
func (w *simWorld) checkBatches(pass *simPass, before, after *topsv1.DaemonRollout) {
	if pass.planName() == "" || pass.plan == nil || pass.undoes(after) || pass.planWrong() != "" || pass.policyWrong() != "" || after.Status.Strategy == "RestartsOnly" {
		return
	}
	waves := pass.planWaves()
	for i, part := range after.Status.Waves {
		if part.CompletedTime == nil || before.Status.Revision == after.Status.Revision && simCompleted(before, part.Name) != nil {
			continue
		}
		if waves != nil {
			w.partsOfWaves++
		}
		if i > 0 && after.Status.Waves[i-1].CompletedTime == nil {
			w.violate("plan: %s is complete before %s", part.Name, after.Status.Waves[i-1].Name)
		}
		for _, h := range w.hosts {
			_, stages := pass.planned(h.name)
			touched := simFailed(after, h.name) || slices.ContainsFunc(after.Status.InFlight, func(s topsv1.NodeSlot) bool { return s.Node == h.name })
			has := pass.has(after, h.name, stages) && (!touched || !pass.atTargets(&after.Status, h.name))
			if pass.seen.nodes[h.name] != nil && pass.partOf(waves, h.name) == part.Name && (touched || !pass.passedOver(h.name) && !isPinnedIn(after, h.name)) && !has {
				w.violate("plan: %s is complete, and %s is not updated", part.Name, h.name)
			}
		}
	}
}

// has reports whether a pass saw the pods at the target that a job replaces, and available on a Ready node.
func (p *simPass) has(r *topsv1.DaemonRollout, node string, stages []topsv1.PlannedStage) bool {
	for _, ds := range p.sets {
		planned := slices.ContainsFunc(stages, func(s topsv1.PlannedStage) bool { return slices.Contains(s, ds.Name+"_"+upgradeplan.ActionReplace) })
		if !planned || !p.belongs(ds, node) {
			continue
		}
		pod := p.pod(ds, node)
		if pod == nil || !slices.ContainsFunc(r.Status.Targets, func(t topsv1.RevisionTarget) bool {
			return t.DaemonSet == ds.Namespace+"/"+ds.Name && t.Hash == daemonset.RevisionHash(pod)
		}) {
			return false
		}
		available, _ := daemonset.Availability(pod, ds.Spec.MinReadySeconds, p.at.Add(p.w.skewOf(pod)))
		if p.seen.ready(node) && !available && !daemonset.IsPlaceholder(pod) {
			return false
		}
	}
	return true
}
