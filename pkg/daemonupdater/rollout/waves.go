package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// waveProgress is how far the rollout may go.
type waveProgress struct {
	// reached is the index of the last wave whose nodes may start.
	reached int
	// reason and why say what the next wave waits for.
	reason Reason
	why    string
}

// followWaves counts the waves, records which are complete, and returns how far the rollout may
// go.
func followWaves(d *draft) waveProgress {
	names := make([]string, 0, len(d.in.Policy.Waves)+1)
	for i := range d.in.Policy.Waves {
		names = append(names, d.in.Policy.Waves[i].Name)
	}
	names = append(names, RestWave)
	d.ledger.Waves, d.ledger.Limit = make([]WaveProgress, len(names)), remembered(d.in.Settings.Only)
	unfinished := unfinishedInWaves(d.fleet)
	updated, passed := 0, true
	for i := range d.ledger.Waves {
		state, c := &d.ledger.Waves[i], &d.fleet.waves[i]
		state.Name, state.Completed = names[i], completedBefore(d.in, names[i])
		state.Total, state.Updated = c.nodes, c.byPhase[phaseUpdated]
		updated += state.Updated
		untestable := c.nodes == c.byPhase[phaseExcluded] // no node takes part that could prove the version
		if state.Completed.IsZero() && passed && unfinished[i] == 0 && (updated > 0 || untestable) {
			state.Completed = d.in.Now
		}
		passed = passed && !state.Completed.IsZero()
	}
	return reachWave(d)
}

// unfinishedInWaves counts the nodes that each wave waits for.
func unfinishedInWaves(f *Fleet) []int {
	unfinished := make([]int, len(f.waves))
	for i := range f.waves {
		unfinished[i] = f.waves[i].unfinished()
	}
	for _, n := range f.nodes.recorded {
		if n.isPassedOver() && (n.slot != nil || n.failure != nil) || n.phase == phaseExcluded && n.slot != nil {
			unfinished[n.wave]++ // it was touched, so the wave waits for it
		}
	}
	return unfinished
}

// completedBefore returns when a wave was completed at this revision by an upgrade with this
// limit, zero if it was not.
func completedBefore(in *Input, wave string) time.Time {
	if in.Ledger.Revision != in.Revision || in.Ledger.Limit != remembered(in.Settings.Only) {
		return time.Time{}
	}
	for i := range in.Ledger.Waves {
		if in.Ledger.Waves[i].Name == wave {
			return in.Ledger.Waves[i].Completed
		}
	}
	return time.Time{}
}

// maxLimit is the length up to which a limit is stored unchanged: it may name thousands of nodes.
const maxLimit = 256

// remembered returns what the ledger stores of a limit: of a long one, its beginning and its
// hash.
func remembered(only string) string {
	if len(only) <= maxLimit {
		return only
	}
	sum := sha256.Sum256([]byte(only))
	return only[:maxLimit/2] + "… " + hex.EncodeToString(sum[:8])
}

// reachWave returns how far the rollout may go, and why not farther.
func reachWave(d *draft) (w waveProgress) {
	for ; ; w.reached++ {
		if why := approvalMissing(d.in, w.reached); why != "" {
			w.reached, w.reason, w.why = w.reached-1, ReasonAwaitingApproval, why
			return w
		}
		if w.reached == len(d.ledger.Waves)-1 {
			return w
		}
		state := d.ledger.Waves[w.reached]
		if state.Completed.IsZero() {
			w.reason = ReasonWaveNotReached
			w.why = fmt.Sprintf("waits for wave %s, %d of whose %d nodes are updated", state.Name, state.Updated, state.Total)
			return w
		}
		soaked := state.Completed.Add(d.in.Policy.Waves[w.reached].Soak)
		if c := &d.fleet.waves[w.reached]; c.leftOut > 0 && c.leftOut == c.nodes {
			continue // no node takes part, so there is nothing to soak
		}
		if left := soaked.Sub(d.in.Now); left > 0 {
			w.reason, w.why = ReasonSoaking, fmt.Sprintf("wave %s is complete and soaks until %s", state.Name, soaked.UTC().Format(time.RFC3339))
			d.recheckIn(left)
			return w
		}
	}
}

// approvalMissing returns what to approve when a wave lacks a required approval, "" otherwise.
func approvalMissing(in *Input, wave int) string {
	if wave >= len(in.Policy.Waves) || !in.Policy.Waves[wave].Manual || in.Policy.Approved[in.Policy.Waves[wave].Name] {
		return ""
	}
	return fmt.Sprintf("wave %s awaits approval as %s/%s", in.Policy.Waves[wave].Name, in.Revision, in.Policy.Waves[wave].Name)
}
