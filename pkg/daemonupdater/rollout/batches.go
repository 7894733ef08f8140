package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A plan divides every wave into its batches and a last part, for the nodes that are in no batch,
// which are left out. Each part is treated like a wave: it starts when those before it are
// complete. So the conditions of the waves apply under a plan as well: the approval of a wave to all
// of its parts, and its soak after the last one. Parts without nodes are not recorded, except the
// last one of a wave, whose completion starts the soak.

// parts returns the number of parts of each wave.
func (p *Policy) parts() int {
	if p.Plan == "" {
		return 1
	}
	return len(p.Batches) + 1
}

// partCount returns the number of parts of all waves.
func (p *Policy) partCount() int { return (len(p.Waves) + 1) * p.parts() }

// partOf returns the index of the part of a node in a wave.
func (p *Policy) partOf(wave int, n *Node) int {
	if p.Plan == "" {
		return wave
	}
	return wave*p.parts() + n.Batch
}

// waveOf returns the index of the wave of a part, and whether it is the last part of that wave.
func (p *Policy) waveOf(part int) (wave int, last bool) {
	return part / p.parts(), part%p.parts() == p.parts()-1
}

// waveName returns the name of a wave.
func (p *Policy) waveName(wave int) string {
	if wave < len(p.Waves) {
		return p.Waves[wave].Name
	}
	return RestWave
}

// batchOf returns the batch of a part, nil if it has none.
func (p *Policy) batchOf(part int) *Batch {
	if i := part % p.parts(); i < len(p.Batches) && p.Plan != "" {
		return &p.Batches[i]
	}
	return nil
}

// partName returns the name of a part in the ledger: WAVE without a plan, PLAN/BATCH without waves,
// else WAVE/PLAN/BATCH.
func (p *Policy) partName(part int) string {
	wave, _ := p.waveOf(part)
	if p.Plan == "" {
		return p.waveName(wave)
	}
	batch := RestWave
	if b := p.batchOf(part); b != nil {
		batch = b.Name
	}
	name := p.Plan + "/" + batch
	if len(p.Waves) > 0 {
		name = p.waveName(wave) + "/" + name
	}
	return name
}

const (
	// followsPlan is the prefix of Ledger.Limit while a plan is in force.
	followsPlan = "plan="
	// planLimited joins the plan in force and a limit besides it in Ledger.Limit.
	planLimited = " upgrade-only="
)

// planInForce returns the plan that the progress of batches refers to, as Ledger.Limit has it.
func (p *Policy) planInForce() string { return followsPlan + p.PlanVersion }

// FollowsAnother reports whether a rollout with the given Ledger.Limit follows a plan of another version, as in
// Policy.PlanVersion.
func FollowsAnother(limit, version string) bool {
	return strings.HasPrefix(limit, followsPlan) && !Follows(limit, version)
}

// Follows reports whether a rollout with the given Ledger.Limit follows the plan of this version.
func Follows(limit, version string) bool {
	limit, _, _ = strings.Cut(limit, planLimited)
	return limit == followsPlan+version
}

// BatchApproval returns the name with which a batch of a plan is approved. part is the name of its part, limit
// is Ledger.Limit. The name has the version of the plan, so that an approval does not include nodes that are moved
// into the batch later. A limit besides the plan does not change it.
func BatchApproval(part, limit string) string {
	limit, _, _ = strings.Cut(limit, planLimited)
	sum := sha256.Sum256([]byte(limit))
	return part + "@" + hex.EncodeToString(sum[:5])
}

// recordedParts returns the progress of the parts that the ledger records.
func recordedParts(p *Policy, all []WaveProgress) []WaveProgress {
	if p.Plan == "" {
		return all
	}
	var kept []WaveProgress
	for i, w := range all {
		if _, last := p.waveOf(i); last || w.Total > 0 {
			kept = append(kept, w)
		}
	}
	return kept
}

// ApproveAll approves every wave and batch.
func (p *Policy) ApproveAll() {
	p.Approved = map[string]bool{}
	for i := range p.partCount() {
		wave, _ := p.waveOf(i)
		p.Approved[p.waveName(wave)], p.Approved[BatchApproval(p.partName(i), p.planInForce())] = true, true
	}
}
