package rollout

import "slices"

// divide calls give for each node of a group with the index of its wave, len(p.Waves) for none. Waves
// with a size take nodes in the stable order of their names' hashes. It reorders free.
func (p *Policy) divide(free []*Node, give func(n *Node, wave int)) {
	all := len(free)
	slices.SortFunc(free, (*Node).compareHash)
	for i := range p.Waves {
		w := &p.Waves[i]
		left := len(free)
		if w.Size != nil {
			left = scaled(w.Size, all)
		}
		free = slices.DeleteFunc(free, func(n *Node) bool {
			if left == 0 || !w.selects(n.Labels) {
				return false
			}
			give(n, i)
			left--
			return true
		})
	}
	for _, n := range free {
		give(n, len(p.Waves))
	}
}

// Divide returns the name of the wave of each node of a group, by node name, RestWave for nodes in no
// wave. labels has the labels of each node, by node name.
func (p *Policy) Divide(labels map[string]map[string]string) map[string]string {
	nodes := make([]*Node, 0, len(labels))
	for name := range labels {
		nodes = append(nodes, &Node{Name: name, Labels: labels[name], hash: hashOf(name)})
	}
	waves := make(map[string]string, len(labels))
	p.divide(nodes, func(n *Node, wave int) { waves[n.Name] = p.waveName(wave) })
	return waves
}
