package rollout

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Plan decides which nodes start now, what every node in flight does next, and
// why every other node waits (design section 3).
func Plan(in Input) Decision {
	p := newPlanner(in)
	if in.Blocked != nil {
		p.keepLedger()
		p.countUse()
		return p.decide()
	}
	p.settleSlots()
	p.settleFailures()
	p.countUse()
	p.judgeFailures()
	p.assignWaves()
	p.followWaves()
	p.startNodes()
	p.nextSteps()
	return p.decide()
}

// planner carries one decision through its steps.
type planner struct {
	in     Input
	nodes  []nodeFacts
	byName map[string]int

	revision string
	slots    []Slot
	failures []Failure
	touched  int
	started  []string
	deletes  []Deletion

	limit, inFlight, used int
	pools                 map[string]*poolUse
	waves                 waveProgress
	usual                 time.Duration
	resumed               string
	finished              []time.Duration
	halted                string
	recheck               time.Duration
}

func newPlanner(in Input) *planner {
	p := &planner{in: in, byName: make(map[string]int, len(in.Nodes)), nodes: make([]nodeFacts, len(in.Nodes))}
	for i := range in.Nodes {
		p.nodes[i] = examine(&in, &in.Nodes[i])
		p.byName[in.Nodes[i].Name] = i
		p.recheckIn(p.nodes[i].availableIn)
	}
	if in.Settings.Strategy != daemonset.NoStrategy {
		p.limit = in.Settings.Limit(len(in.Nodes))
	}
	p.usual, p.resumed = in.Ledger.Usual, in.Resume
	return p
}

// keepLedger leaves the memory as it is: while the group is blocked nothing is
// touched, nothing expires and nothing is forgotten.
func (p *planner) keepLedger() {
	p.revision, p.touched = p.in.Ledger.Revision, p.in.Ledger.Touched
	p.waves.states, p.resumed = p.in.Ledger.Waves, p.in.Ledger.Resumed
	p.slots, p.failures = p.in.Ledger.Slots, p.in.Ledger.Failures
	for i := range p.slots {
		if node := p.lookup(p.slots[i].Node, p.slots[i].UID); node != nil {
			node.slot = &p.slots[i]
		}
	}
	p.markFailures()
}

// lookup returns the node of a name, nil when there is none, or when the name
// now belongs to another Node object than uid.
func (p *planner) lookup(name string, uid types.UID) *nodeFacts {
	i, ok := p.byName[name]
	if !ok || p.nodes[i].UID != uid {
		return nil
	}
	return &p.nodes[i]
}

// replaced tells whether the name belongs to another Node object than uid.
func (p *planner) replaced(name string, uid types.UID) bool {
	i, ok := p.byName[name]
	return ok && p.nodes[i].UID != uid
}

// settleSlots keeps, frees or fails each slot of the ledger.
func (p *planner) settleSlots() {
	p.revision, p.touched = p.in.Revision, p.in.Ledger.Touched
	if p.in.Ledger.Revision != p.in.Revision {
		p.touched = len(p.in.Ledger.Slots)
	}
	for _, slot := range p.in.Ledger.Slots {
		node := p.lookup(slot.Node, slot.UID)
		retarget := slot.Revision != p.in.Revision
		if p.replaced(slot.Node, slot.UID) {
			continue
		}
		if node != nil {
			node.slot = &slot
			if node.settled() || (retarget && node.idle(slot)) {
				p.learn(slot, node)
				node.slot = nil
				continue
			}
		}
		if retarget {
			slot.Revision, slot.Since = p.in.Revision, p.in.Now
		}
		if failure := p.expire(slot, node); failure != nil {
			p.failures = append(p.failures, *failure)
			if node != nil {
				node.slot = nil
			}
			continue
		}
		p.slots = append(p.slots, slot)
	}
}

// learn takes the time a node took into the usual duration, when it finished
// at its target: a moving average, so that it follows a change of pace.
func (p *planner) learn(slot Slot, node *nodeFacts) {
	if !node.healed() || slot.Revision != p.in.Revision {
		return
	}
	took := max(p.in.Now.Sub(slot.Since), time.Second)
	p.finished = append(p.finished, took)
	if p.usual == 0 {
		p.usual = took
		return
	}
	p.usual += (took - p.usual) / usualWeight
}

// usualWeight is the weight of the past in the moving average.
const usualWeight = 8

// expire tells whether the node of a slot has failed, and asks to be woken at
// its deadline when it has not. node is nil when the Node object is gone.
func (p *planner) expire(slot Slot, node *nodeFacts) *Failure {
	failure := Failure{Node: slot.Node, UID: slot.UID, Since: p.in.Now}
	if node != nil && node.Ready {
		if pod := node.crashLooping(slot.Since); pod != nil {
			failure.Reason = ReasonCrashLooping
			failure.Message = fmt.Sprintf("container %s of pod %s crash-loops", pod.CrashLooping, pod.Name)
			return &failure
		}
		left := later(slot.Since, node.ReadySince).Add(p.in.Deadlines.Progress).Sub(p.in.Now)
		if left > 0 {
			p.recheckIn(left)
			return nil
		}
		failure.Reason = ReasonProgressDeadlineExceeded
		failure.Message = fmt.Sprintf("not available %s after it was started: %s", p.in.Deadlines.Progress, node.wait().message)
		return &failure
	}
	lost := slot.Since
	if node != nil {
		lost = later(slot.Since, node.ReadySince)
	}
	left := lost.Add(p.in.Deadlines.Lost).Sub(p.in.Now)
	if left > 0 {
		p.recheckIn(left)
		return nil
	}
	failure.Reason = ReasonNodeLost
	failure.Message = fmt.Sprintf("went offline after it was started and did not come back within %s", p.in.Deadlines.Lost)
	return &failure
}

// settleFailures keeps the failures of earlier decisions that still hold: those
// of this revision whose node has not healed, and that no person has forgiven
// by resuming the rollout.
func (p *planner) settleFailures() {
	for _, failure := range p.in.Ledger.Failures {
		if p.in.Resume != p.in.Ledger.Resumed || p.in.Ledger.Revision != p.in.Revision || p.replaced(failure.Node, failure.UID) {
			continue
		}
		node := p.lookup(failure.Node, failure.UID)
		if node != nil && (node.healed() || node.slot != nil) {
			continue
		}
		p.failures = append(p.failures, failure)
	}
	sort.Slice(p.failures, func(i, j int) bool { return p.failures[i].Node < p.failures[j].Node })
	p.markFailures()
}

func (p *planner) markFailures() {
	for i := range p.failures {
		if node := p.lookup(p.failures[i].Node, p.failures[i].UID); node != nil {
			node.failure = &p.failures[i]
		}
	}
}

// minFailures is the least number of failed nodes that halts a rollout, and
// failureShare the share of touched nodes beyond it (design section 3).
const (
	minFailures  = 2
	failureShare = 10
)

func (p *planner) judgeFailures() {
	threshold := max(minFailures, (p.touched+failureShare-1)/failureShare)
	if given := p.in.Policy.Threshold; given != nil {
		threshold = scaled(given, p.touched)
	}
	if len(p.failures) < threshold {
		return
	}
	names := make([]string, len(p.failures))
	for i := range p.failures {
		names[i] = p.failures[i].Node
	}
	p.halted = fmt.Sprintf("%d of %d started nodes failed (%s): roll out another revision, repair these nodes, or resume",
		len(p.failures), p.touched, message.Names(names))
}

// nextSteps records in each slot which pod is to be deleted next, if any.
func (p *planner) nextSteps() {
	for i := range p.slots {
		slot := &p.slots[i]
		node := p.lookup(slot.Node, slot.UID)
		if node == nil || !node.Ready {
			continue
		}
		pod := node.next()
		if pod == nil {
			continue
		}
		slot.Pod = pod.UID
		if key := p.in.Members[pod.Member].Key; !slices.Contains(slot.Members, key) {
			slot.Members = append(slices.Clone(slot.Members), key)
		}
		p.deletes = append(p.deletes, Deletion{
			Node: node.Name, Member: pod.Member, Pod: pod.Name, UID: pod.UID, WasUnavailable: !pod.Available,
		})
	}
}

func (p *planner) decide() Decision {
	d := Decision{
		Ledger:   Ledger{Revision: p.revision, Slots: p.slots, Failures: p.failures, Touched: p.touched, Waves: p.waves.states, Usual: p.usual, Resumed: p.resumed},
		Finished: p.finished,
		Started:  p.started, Delete: p.deletes,
		Verdicts: make([]Verdict, len(p.nodes)),
		Limit:    p.limit, InFlight: p.inFlight, Used: p.used, Halted: p.halted, Recheck: p.recheck,
	}
	for i := range p.nodes {
		d.Verdicts[i] = p.verdict(&p.nodes[i])
		d.Counts.add(d.Verdicts[i].State)
	}
	sort.Strings(d.Started)
	return d
}

func (p *planner) recheckIn(d time.Duration) {
	if d > 0 && (p.recheck == 0 || d < p.recheck) {
		p.recheck = d
	}
}

func (c *Counts) add(s State) {
	c.Total++
	switch s {
	case Updated:
		c.Updated++
	case InFlight:
		c.InFlight++
	case Pending:
		c.Pending++
	case Skipped:
		c.Skipped++
	case Failed:
		c.Failed++
	}
}

func without(failures []Failure, node string) []Failure {
	kept := make([]Failure, 0, len(failures))
	for _, f := range failures {
		if f.Node != node {
			kept = append(kept, f)
		}
	}
	return kept
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// wanted tells whether a pod is to be replaced under the strategy: always when
// it is outdated, under OTA only when its node asked for this very pod.
func wanted(strategy daemonset.Strategy, pod *Pod) bool {
	if strategy == daemonset.OTA {
		return pod.Request != nil && pod.Request.PodUID == pod.UID
	}
	return strategy == daemonset.AdvancedRollingUpdate
}
