package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// waveProgress is how far the rollout may go.
type waveProgress struct {
	parts []WaveProgress
	// reached is the index of the last wave whose nodes may start.
	reached int
	// reason and why say what the next wave waits for.
	reason Reason
	why    string
	// approval is the name of the wave or batch to approve, as an approval has it, "" for none.
	approval string
}

// followWaves counts the nodes of the waves, finds out which waves are complete, and returns how far the
// rollout may go.
func followWaves(d *draft) waveProgress {
	parts := make([]WaveProgress, d.in.Policy.partCount())
	d.ledger.Limit = limitOf(d.in)
	unfinished, done, proving := unfinishedInWaves(d.fleet)
	proven, testable, passed := 0, 0, true
	for i := range parts {
		state, c := &parts[i], &d.fleet.waves[i]
		state.Name, state.Total, state.Updated = d.in.Policy.partName(i), c.nodes, done[i]
		state.Completed, state.Soaked = completedBefore(d, parts, i)
		if state.Total == 0 && !state.Completed.IsZero() { // that it had nodes keeps it passed when they are back
			state.Total = recordedBefore(d, state.Name).Total
			state.Updated = state.Total
		}
		state.skipIdleTime(d.in, d.in.Policy.soakAfter(i))
		proven, testable = proven+proving[i], testable+c.testable
		_, last := d.in.Policy.waveOf(i)
		// A wave is complete only if some node of it proves the version, or none could. A batch of a plan need not prove it, but
		// it is not passed while no node may start: its nodes may be offline until a global task wakes them.
		if state.Completed.IsZero() && passed && d.in.Beforehand == nil && unfinished[i] == 0 && (testable == 0 || last && proven > 0 || !last && reachesBatches(d)) {
			state.Completed = d.in.Now
		}
		if passed = passed && !state.Completed.IsZero(); last {
			testable = 0
		}
	}
	reached := reachWave(d, parts, unfinished)
	reached.parts = parts
	return reached
}

// skipIdleTime moves the completion of a wave by the time in which nothing was decided while the wave soaked: like a
// deadline, a soak counts only the time in which a manager watched. If the clock was set back to before the completion,
// the soak restarts.
func (w *WaveProgress) skipIdleTime(in *Input, soak time.Duration) {
	if w.Completed.IsZero() {
		return
	}
	if w.Completed.Add(soak).After(in.Ledger.Decided) {
		w.Completed = w.Completed.Add(idleTime(in))
	}
	w.Completed, w.Soaked = earlier(w.Completed, in.Now), earlier(w.Soaked, in.Now)
}

// unfinishedInWaves counts the nodes that each wave waits for, those that are updated, and of these, those that prove it.
// A node whose new pods took it offline, or offer no cards, does not count as updated although it is at its target: it
// keeps its slot, or has failed.
func unfinishedInWaves(f *Fleet) (unfinished, updated, proving []int) {
	unfinished, updated, proving = make([]int, len(f.waves)), make([]int, len(f.waves)), make([]int, len(f.waves))
	for i := range f.waves {
		c := &f.waves[i]
		unfinished[i], updated[i], proving[i] = c.unfinished(), c.byPhase[phaseUpdated], c.proving
	}
	for _, n := range f.nodes.recorded {
		if n.phase == phaseUpdated && (n.slot != nil || n.failure != nil) {
			updated[n.wave]--
			if n.Ready {
				proving[n.wave]--
			}
		}
		if isUnfinishedWhenTouched(n) {
			unfinished[n.wave]++
		}
	}
	return unfinished, updated, proving
}

// isUnfinishedWhenTouched reports whether the wave of a node waits for it only because it has a slot or has failed.
func isUnfinishedWhenTouched(n *Node) bool {
	switch n.phase {
	case phaseUpdated, phaseExcluded:
		return n.slot != nil || n.failure != nil && !isLeftOutOfWaves(n)
	case phaseUnavailable:
		return n.slot != nil && isLeftOutOfWaves(n)
	}
	return n.isPassedOver() && (n.slot != nil || n.failure != nil)
}

// reachesBatches reports whether some node of a batch is reachable, and is done or has work left. Otherwise the control
// plane may be cut off from the nodes, and batches of offline nodes are not passed.
func reachesBatches(d *draft) bool {
	for i := range d.fleet.waves {
		c := &d.fleet.waves[i]
		if _, last := d.in.Policy.waveOf(i); !last && (c.done > 0 || c.unfinished() > c.byPhase[phaseJustOffline]) {
			return true
		}
	}
	return false
}

// lastPlanned returns the index of the last part that is a batch of the plan in force and has nodes, even if a limit leaves
// them out; 0 for none.
func lastPlanned(d *draft) int {
	for i := len(d.fleet.waves) - 1; i > 0; i-- {
		if _, last := d.in.Policy.waveOf(i); !last && d.fleet.waves[i].nodes > 0 {
			return i
		}
	}
	return 0
}

// completedBefore returns when a part was completed, and its soak was over, at this revision under this limit or plan, zero if it was not, or if
// it has nodes now and had none at the last decision: the selector of its wave may have been corrected. The last part of a
// wave under a plan, which seldom has nodes of its own, has all nodes of the wave in that sense.
func completedBefore(d *draft, parts []WaveProgress, part int) (completed, soaked time.Time) {
	first := part
	if wave, last := d.in.Policy.waveOf(part); last {
		first = wave * d.in.Policy.parts()
	}
	had, has := 0, 0
	for i := first; i <= part; i++ {
		had, has = had+recordedBefore(d, parts[i].Name).Total, has+d.fleet.waves[i].nodes
	}
	if had > 0 || has == 0 {
		before := recordedBefore(d, parts[part].Name)
		return before.Completed, before.Soaked
	}
	return time.Time{}, time.Time{}
}

// recordedBefore returns the progress of a part at the last decision, if that was at this revision under this limit or plan.
func recordedBefore(d *draft, name string) WaveProgress {
	before := &d.in.Ledger
	if before.Revision != d.in.Revision || before.Limit != d.ledger.Limit {
		return WaveProgress{}
	}
	for i := range before.Waves {
		if before.Waves[i].Name == name {
			return before.Waves[i]
		}
	}
	return WaveProgress{}
}

// limitOf returns what the progress of waves refers to, as Ledger.Limit has it: the plan in force and the
// limit. Because a limit leaves nodes out, a batch that is complete under it may be incomplete without it.
func limitOf(in *Input) string {
	only := remembered(in.Settings.Only)
	switch {
	case in.Policy.Plan == "":
		return only
	case only == "":
		return in.Policy.planInForce()
	}
	return in.Policy.planInForce() + planLimited + only
}

// maxLimit is the length up to which a limit is stored unchanged: it may name thousands of nodes.
const maxLimit = 256

// remembered returns a limit as the ledger stores it: a long one as its first part and its hash.
func remembered(only string) string {
	if len(only) <= maxLimit {
		return only
	}
	sum := sha256.Sum256([]byte(only))
	return only[:maxLimit/2] + "… " + hex.EncodeToString(sum[:8])
}

// reachWave returns how far the rollout may go, and why not farther. unfinished counts the nodes that each part waits for.
func reachWave(d *draft, parts []WaveProgress, unfinished []int) (w waveProgress) {
	for ; ; w.reached++ {
		if name, why := approvalMissing(d, w.reached); why != "" {
			w.reached, w.reason, w.why, w.approval = w.reached-1, ReasonAwaitingApproval, why, name
			return w
		}
		if w.reached == len(parts)-1 {
			return w
		}
		state := parts[w.reached]
		if state.Completed.IsZero() {
			w.reason = ReasonWaveNotReached
			w.why = fmt.Sprintf("waits for wave %s: %d of %d nodes are updated%s", state.Name, state.Updated, state.Total, d.fleet.waves[w.reached].delayed())
			if wave, _ := d.in.Policy.waveOf(w.reached); unfinished[w.reached] == 0 { // no node proves the version
				w.why = fmt.Sprintf("waits until a node of wave %s is updated: all of them are offline or cannot be upgraded now; bring one back, or change the waves of the policy", d.in.Policy.waveName(wave))
			}
			return w
		}
		if why, left := soaking(d, parts, w.reached); why != "" {
			w.reason, w.why = ReasonSoaking, why
			d.recheckIn(left)
			d.soaks = left > 0 && slices.ContainsFunc(parts[w.reached+1:], func(p WaveProgress) bool { return p.Updated < p.Total })
			return w
		}
	}
}

// approvalMissing returns the name of the approval that a wave, or a batch of the plan, requires and lacks,
// and the explanation; "" if it lacks none.
func approvalMissing(d *draft, part int) (name, why string) {
	p := &d.in.Policy
	wave, _ := p.waveOf(part)
	if wave < len(p.Waves) && p.Waves[wave].Manual && !p.Approved[p.Waves[wave].Name] {
		name = p.Waves[wave].Name
		return name, fmt.Sprintf("wave %s awaits approval as %s/%s", name, d.in.Revision, name)
	}
	if b, name := p.batchOf(part), BatchApproval(p.partName(part), p.planInForce()); b != nil && b.Manual && d.fleet.waves[part].nodes > 0 && !p.Approved[name] {
		return name, fmt.Sprintf("batch %s awaits approval as %s/%s", b.Name, d.in.Revision, name)
	}
	return "", ""
}
