package rollout

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Forecast is the expected course of a rollout if nothing fails.
type Forecast struct {
	// Starts are the starts of nodes, in order.
	Starts []Start
	// InFlight names the nodes that are in flight at the start of the preview, sorted; they finish.
	InFlight []string
	// Left are the verdicts on the nodes that do not reach the target, sorted by name.
	Left []Verdict
	// MaxUnavailable is the number of nodes that may be unavailable.
	MaxUnavailable int
	// Took is the total duration at the usual pace, including soaks and windows; 0 when the pace
	// is unknown.
	Took time.Duration
}

// Start is a set of nodes that start at the same time.
type Start struct {
	// After is the time since the start of the preview.
	After time.Duration
	Nodes []string
	// Wave of the policy that the nodes are in, "" for none.
	Wave string
}

// Preview simulates a rollout to its end with the decisions of Plan. Every node takes the usual
// time, nothing fails, and offline nodes stay offline. The preview ends at a wave that needs an
// approval, unless the input has it. Call KeepPins first.
func Preview(in Input) Forecast {
	in.Nodes, in.Deadlines.Probation = withPrepared(in.Nodes), 0 // no node is on probation
	p := preview{in: in, fleet: NewFleet(&in), pace: in.Ledger.Usual}
	p.in.Ledger.Slots = slices.Clone(in.Ledger.Slots)
	if p.pace == 0 {
		p.pace = time.Second
	}
	var d Decision
	for range maxSteps {
		d = p.fleet.Plan(p.in)
		p.note(&d)
		p.in.Ledger = d.Ledger
		if !p.prepare(&d) && !p.finish(&d) && !p.wait(&d) {
			break
		}
	}
	out := Forecast{Starts: p.starts, InFlight: p.inFlight, Left: p.left(&d), MaxUnavailable: d.MaxUnavailable}
	if in.Ledger.Usual > 0 {
		out.Took = p.in.Now.Sub(in.Now)
	}
	return out
}

// KeepPins drops the pins of an input that end because of its targets, and sets the others in its pods.
func KeepPins(in *Input) {
	of := map[string][]Pin{}
	in.Ledger.Pins = slices.DeleteFunc(slices.Clone(in.Ledger.Pins), func(pin Pin) bool {
		return slices.ContainsFunc(in.Members, func(m Member) bool { return m.Key == pin.Member && m.Target != pin.From })
	})
	for _, pin := range in.Ledger.Pins {
		of[pin.Node] = append(of[pin.Node], pin)
	}
	in.Nodes = slices.Clone(in.Nodes)
	for i := range in.Nodes {
		in.Nodes[i] = withPins(in.Nodes[i], of[in.Nodes[i].Name], in.Members)
	}
}

// withPrepared returns the nodes as if every operation in preparation were prepared or, if it was aborted, had ended, and all images were pulled.
func withPrepared(nodes []Node) []Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		switch op := nodes[i].Operation; {
		case op == nil || !op.Ours || op.Granted:
		case op.Aborted:
			nodes[i].Operation = nil
		default:
			ready := *op
			ready.Prepared = true
			nodes[i].Operation = &ready
		}
		nodes[i].Pods = slices.Clone(nodes[i].Pods)
		for j := range nodes[i].Pods {
			nodes[i].Pods[j].Pull = Pull{}
		}
	}
	return nodes
}

// maxSteps bounds a preview: without it, a window that never opens for long enough would keep it running.
const maxSteps = 100_000

// preview is a simulated cluster that follows decisions.
type preview struct {
	in      Input
	fleet   *Fleet
	pace    time.Duration
	started time.Time
	starts  []Start
	made    int

	inFlight []string
}

// note records which nodes a decision starts.
func (p *preview) note(d *Decision) {
	if p.started.IsZero() {
		p.started = p.in.Now
		p.inFlight = p.underWay(d)
	}
	byWave := map[string][]string{}
	var waves []string
	for _, name := range d.Started {
		wave := ""
		if i, _ := p.in.Policy.waveOf(p.fleet.nodes.byName[name].wave); i < len(p.in.Policy.Waves) {
			wave = p.in.Policy.Waves[i].Name
		}
		if !slices.Contains(waves, wave) {
			waves = append(waves, wave)
		}
		byWave[wave] = append(byWave[wave], name)
	}
	for _, wave := range waves {
		p.starts = append(p.starts, Start{After: p.in.Now.Sub(p.started), Nodes: byWave[wave], Wave: wave})
	}
}

// underWay returns the nodes in flight that a decision does not start, sorted.
func (p *preview) underWay(d *Decision) []string {
	var names []string
	for name := range p.fleet.nodes.byName {
		if v, _ := d.Verdict(name); v.State == InFlight && !slices.Contains(d.Started, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// prepare completes the preparation of every new operation. It reports whether there was any.
func (p *preview) prepare(d *Decision) bool {
	prepared := false
	for _, change := range d.Operations {
		node := p.fleet.Node(change.Node)
		if node == nil || change.Grant || change.Abort {
			continue
		}
		next := *node
		next.Operation = &Operation{ID: change.Operation, Ours: true, Prepared: true}
		p.fleet.Set(next, p.in.Now)
		prepared = true
	}
	return prepared
}

// finish advances the time by the usual duration, after which every started node is at its target. It
// reports whether there was any.
func (p *preview) finish(d *Decision) bool {
	arrived := false
	now := p.in.Now.Add(p.pace)
	for i := range d.Ledger.Slots {
		slot := &d.Ledger.Slots[i]
		node := p.fleet.Node(slot.Node)
		if slot.Queued || node == nil || !node.Ready {
			continue
		}
		next := *node
		next.Operation, next.Disturbed = nil, false
		if slot.Operation != "" {
			next.Ended = append(slices.Clone(node.Ended), End{ID: slot.Operation, Done: true, Time: now})
		}
		next.Pods = slices.Clone(node.Pods)
		for j := range next.Pods {
			p.arrive(&next.Pods[j], now)
		}
		next.NeedsRestart = next.NeedsRestart && slot.Operation == ""
		p.fleet.Set(next, now)
		arrived = true
	}
	if arrived {
		p.in.Now = now
	}
	return arrived
}

// arrive replaces a pod by one at its target, or at the revision that it is pinned to.
func (p *preview) arrive(pod *Pod, now time.Time) {
	target, image := cmp.Or(pod.Pin, p.in.Members[pod.Member].Target), p.in.Members[pod.Member].Image
	if pod.Pin != "" {
		image = pod.Image
	}
	pod.Available, pod.AvailableAt, pod.Terminating, pod.CrashLooping = true, time.Time{}, false, ""
	pod.Unverified, pod.OffersNone = false, false
	if pod.Revision == target && pod.UID != "" && !pod.NoCards {
		return
	}
	p.made++
	made := strconv.Itoa(p.made)
	*pod = Pod{Member: pod.Member, Name: "preview-" + made, UID: types.UID("preview-" + made), Revision: target, Image: image, Available: true, Created: now}
}

// wait advances the time to the next recheck that the decision asks for, and reports whether it
// did.
func (p *preview) wait(d *Decision) bool {
	if d.Recheck <= 0 || d.Counts.Pending+d.Counts.Held == 0 {
		return false
	}
	p.in.Now = p.in.Now.Add(d.Recheck)
	return true
}

// left returns the verdicts on the nodes that have not reached the target.
func (p *preview) left(d *Decision) []Verdict {
	var left []Verdict
	for name := range p.fleet.nodes.byName {
		if v, _ := d.Verdict(name); v.State != Updated {
			left = append(left, v)
		}
	}
	slices.SortFunc(left, func(a, b Verdict) int { return cmp.Compare(a.Node, b.Node) })
	return left
}
