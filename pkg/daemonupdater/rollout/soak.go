package rollout

import (
	"fmt"
	"slices"
	"time"
)

// soaking returns why the soak that follows a complete part is not over, "" if it is or if none follows, and the time that is
// left. It does not end while a node of the wave is not available, but once a node of a later part has started after it in
// its turn, which is recorded, the wave stays passed.
func soaking(d *draft, parts []WaveProgress, part int) (why string, left time.Duration) {
	soak := d.in.Policy.soakAfter(part)
	wave, _ := d.in.Policy.waveOf(part)
	if soak == 0 || !takesPart(d, wave) {
		return "", 0 // if no node takes part, there is nothing to soak
	}
	until := parts[part].Completed.Add(soak)
	left = max(0, until.Sub(d.in.Now))
	name, lacks := notAvailableIn(d, wave)
	if left == 0 && (name == "" || !parts[part].Soaked.IsZero()) {
		return "", 0
	}
	why = fmt.Sprintf("wave %s is complete and soaks until %s", parts[part].Name, until.UTC().Format(time.RFC3339))
	if name != "" {
		why += fmt.Sprintf(", and until node %s is available: %s; if it lasts, repair the node or roll out another revision", name, lacks)
	}
	return why, left
}

// notAvailableIn returns the name of a node of a wave that has failed, or whose pod at its target is not available, and what it
// lacks; "" if there is none. Another node that is offline, or one that is left out, does not count.
func notAvailableIn(d *draft, wave int) (name, lacks string) {
	counts := func(n *Node) bool {
		of, _ := d.in.Policy.waveOf(n.wave)
		return of == wave && !isLeftOutOfWaves(n)
	}
	for _, n := range d.fleet.nodes.recorded {
		if n.failure != nil && counts(n) {
			return n.Name, n.failure.Message
		}
	}
	d.fleet.byPhase[phaseUnavailable].Ascend(func(n *Node) bool {
		if counts(n) && slices.ContainsFunc(n.Pods, func(p Pod) bool { return n.group.isMoving(&p) && !p.isAbsent() }) {
			name = n.Name
			_, lacks = n.progress()
		}
		return name == ""
	})
	return name, lacks
}

// haveSoaked records that the soaks before a part are over, because a node of it was started in its turn.
func haveSoaked(d *draft, parts []WaveProgress, before int) {
	for i := range before {
		if !parts[i].Completed.IsZero() && parts[i].Soaked.IsZero() && d.in.Policy.soakAfter(i) > 0 {
			parts[i].Soaked = d.in.Now
		}
	}
	d.ledger.Waves = recordedParts(&d.in.Policy, parts)
}

// soakAfter returns how long the wave of a part soaks after that part: 0 unless it is the last part of the wave.
func (p *Policy) soakAfter(part int) time.Duration {
	wave, last := p.waveOf(part)
	if !last || wave == len(p.Waves) {
		return 0
	}
	return p.Waves[wave].Soak
}

// takesPart reports whether the limit or plan includes some node of a wave, or the wave has no nodes.
func takesPart(d *draft, wave int) bool {
	parts := d.in.Policy.parts()
	leftOut := 0
	for _, c := range d.fleet.waves[wave*parts : (wave+1)*parts] {
		if c.nodes > c.leftOut {
			return true
		}
		leftOut += c.leftOut
	}
	return leftOut == 0
}
