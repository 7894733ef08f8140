package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// WaveState is the memory of a wave.
type WaveState struct {
	Name string
	// Total and Updated count its nodes; they are for people.
	Total, Updated int
	// Completed is when every reachable node was first updated, zero before. Once
	// it is set the wave has been passed, whatever comes back later. Of a limited
	// upgrade what it leaves out does not count, and of another one this does not hold.
	Completed time.Time
}

// waveProgress is how far the waves are in this decision.
type waveProgress struct {
	states []WaveState
	// limit is what the upgrade is limited to in which they are so.
	limit string
	// reached is the index of the last wave whose nodes may be started.
	reached int
	// reason and why say what the next wave waits for.
	reason Reason
	why    string
}

// assignWaves gives every node the index of its wave. Nodes are taken by size in
// the stable order of their names' hashes.
func (f *Fleet) assignWaves() {
	waves := f.frame.policy.Waves
	free := slices.SortedFunc(maps.Values(f.nodes), (*nodeFacts).compareHash)
	for i := range waves {
		w := &waves[i]
		left := len(free)
		if w.Size != nil {
			left = scaled(w.Size, len(f.nodes))
		}
		free = slices.DeleteFunc(free, func(n *nodeFacts) bool {
			if left == 0 || (w.Selector != nil && !w.Selector.Matches(labels.Set(n.Labels))) {
				return false
			}
			f.moveToWave(n, i)
			left--
			return true
		})
	}
	for _, n := range free {
		f.moveToWave(n, len(waves))
	}
}

func (f *Fleet) moveToWave(n *nodeFacts, wave int) {
	if n.wave != wave {
		f.leave(n)
		n.wave = wave
		f.enter(n)
	}
}

// followWaves counts the waves, notes which are complete, and finds how far the
// rollout may go.
func (p *planner) followWaves() {
	names := make([]string, 0, len(p.in.Policy.Waves)+1)
	for i := range p.in.Policy.Waves {
		names = append(names, p.in.Policy.Waves[i].Name)
	}
	names = append(names, RestWave)
	p.waves.states, p.waves.limit = make([]WaveState, len(names)), remembered(p.in.Settings.Only)
	open := p.openInWaves()
	proven, passed := 0, true
	for i := range p.waves.states {
		state, t := &p.waves.states[i], &p.fleet.waves[i]
		state.Name, state.Completed = names[i], p.completedBefore(names[i])
		state.Total, state.Updated = t.nodes, t.by[finished]
		proven += state.Updated
		nobody := t.nodes == t.by[leftOut] // there is none that could prove it
		if state.Completed.IsZero() && passed && open[i] == 0 && (proven > 0 || nobody) {
			state.Completed = p.in.Now
		}
		passed = passed && !state.Completed.IsZero()
	}
	p.reachWave()
}

// openInWaves counts the nodes that each wave waits for.
func (p *planner) openInWaves() []int {
	open := make([]int, len(p.fleet.waves))
	for i := range p.fleet.waves {
		open[i] = p.fleet.waves[i].open()
	}
	for _, n := range p.fleet.marked {
		if n.standing == away && (n.slot != nil || n.failure != nil) || n.standing == leftOut && n.slot != nil {
			open[n.wave]++ // it was touched: the wave waits for it
		}
	}
	return open
}

// completedBefore is when a wave was completed at this revision, by an upgrade with this
// limit, zero when it was not.
func (p *planner) completedBefore(name string) time.Time {
	if p.in.Ledger.Revision != p.in.Revision || p.in.Ledger.Limit != remembered(p.in.Settings.Only) {
		return time.Time{}
	}
	for i := range p.in.Ledger.Waves {
		if p.in.Ledger.Waves[i].Name == name {
			return p.in.Ledger.Waves[i].Completed
		}
	}
	return time.Time{}
}

// maxLimit is how much of a limit is remembered as it is: it may name thousands of nodes.
const maxLimit = 256

// remembered is what a ledger keeps of a limit: a long one by its begin and its hash.
func remembered(only string) string {
	if len(only) <= maxLimit {
		return only
	}
	sum := sha256.Sum256([]byte(only))
	return only[:maxLimit/2] + "… " + hex.EncodeToString(sum[:8])
}

// reachWave sets how far the rollout may go, and why not farther.
func (p *planner) reachWave() {
	w := &p.waves
	for w.reached = 0; ; w.reached++ {
		if why := p.unapproved(w.reached); why != "" {
			w.reached, w.reason, w.why = w.reached-1, ReasonAwaitingApproval, why
			return
		}
		if w.reached == len(w.states)-1 {
			return
		}
		state := w.states[w.reached]
		if state.Completed.IsZero() {
			w.reason = ReasonWaveNotReached
			w.why = fmt.Sprintf("waits for wave %s, %d of whose %d nodes are updated", state.Name, state.Updated, state.Total)
			return
		}
		soaked := state.Completed.Add(p.in.Policy.Waves[w.reached].Soak)
		if t := &p.fleet.waves[w.reached]; t.outside > 0 && t.outside == t.nodes {
			continue // there is nothing in it that could show
		}
		if left := soaked.Sub(p.in.Now); left > 0 {
			w.reason, w.why = ReasonSoaking, fmt.Sprintf("wave %s is complete and soaks until %s", state.Name, soaked.UTC().Format(time.RFC3339))
			p.recheckIn(left)
			return
		}
	}
}

// unapproved says what to do when a wave needs an approval it does not have.
func (p *planner) unapproved(wave int) string {
	if wave >= len(p.in.Policy.Waves) || !p.in.Policy.Waves[wave].Manual || p.in.Policy.Approved[p.in.Policy.Waves[wave].Name] {
		return ""
	}
	return fmt.Sprintf("wave %s waits for a person to approve %s/%s", p.in.Policy.Waves[wave].Name, p.in.Revision, p.in.Policy.Waves[wave].Name)
}

// held says why policy keeps the candidates of a lane from being started now.
// Waves are for healthy nodes: one that is unavailable already uses up the budget
// of them all, so a version that may mend it goes there first.
func (p *planner) held(l *lane) (Reason, string) {
	if p.in.Settings.Strategy == daemonset.OTA {
		return "", ""
	}
	if l.need == healthy && l.wave > p.waves.reached {
		return p.waves.reason, p.waves.why
	}
	if why, again := p.shut(l); why != "" {
		p.recheckIn(again)
		return ReasonOutsideWindow, why
	}
	return "", ""
}
