package upgradeplan

import (
	"fmt"
	"slices"
	"strings"
)

// block is consecutive batches that differ only in the names of their nodes.
type block struct {
	first, last int
	groups      []*group
}

// group is hosts with equal jobs.
type group struct {
	// shape is the content of all the jobs, without the host.
	shape, label string
	stages       []string
	hosts        []string
	// most is the largest number of these hosts in one batch.
	most int
}

// shown is the largest number of nodes of a group that are all printed by name.
const shown = 4

// nodes lists the hosts of the group: all of a small one, the first and the last of a large
// one.
func (g *group) nodes() string {
	names := strings.Join(g.hosts[:min(len(g.hosts), shown)], ", ")
	var about []string
	if len(g.hosts) > shown {
		names = g.hosts[0] + " … " + g.hosts[len(g.hosts)-1]
		about = append(about, fmt.Sprintf("%d nodes", len(g.hosts)))
	}
	if g.most < len(g.hosts) {
		about = append(about, fmt.Sprintf("%d at a time", g.most))
	}
	if len(about) == 0 {
		return names
	}
	return names + " (" + strings.Join(about, ", ") + ")"
}

func (b block) name() string {
	if b.first == b.last {
		return fmt.Sprint(b.first)
	}
	return fmt.Sprintf("%d-%d", b.first, b.last)
}

// blocks groups the mission for printing.
func blocks(m Mission, label func(string) string) []block {
	var all []block
	for i, batch := range m {
		groups := groupsOf(batch, label)
		if len(all) > 0 && all[len(all)-1].like(groups) {
			all[len(all)-1].extend(groups)
			continue
		}
		all = append(all, block{first: i + 1, last: i + 1, groups: groups})
	}
	return all
}

// groupsOf returns the groups of a batch in the order of their first hosts.
func groupsOf(batch Batch, label func(string) string) []*group {
	type key struct{ shape, label string }
	byKey := map[key]*group{}
	var groups []*group
	for _, job := range batch {
		host, k := job.Host(), key{shape: shapeOf(job)}
		if label != nil {
			k.label = label(host)
		}
		g := byKey[k]
		if g == nil {
			g = &group{shape: k.shape, label: k.label, stages: wordsOf(job)}
			byKey[k] = g
			groups = append(groups, g)
		}
		g.hosts = append(g.hosts, host)
		g.most++
	}
	return groups
}

func (b *block) like(groups []*group) bool {
	return slices.EqualFunc(b.groups, groups, func(x, y *group) bool { return x.shape == y.shape && x.label == y.label })
}

func (b *block) extend(groups []*group) {
	b.last++
	for i, g := range groups {
		b.groups[i].hosts = append(b.groups[i].hosts, g.hosts...)
		b.groups[i].most = max(b.groups[i].most, g.most)
	}
}

// shapeOf returns the job as text without its host.
func shapeOf(job Job) string {
	var b strings.Builder
	for _, stage := range job {
		for _, t := range stage {
			b.WriteString(t.Target)
			b.WriteByte('_')
			b.WriteString(t.Action)
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// wordsOf returns each stage as "action target, target".
func wordsOf(job Job) []string {
	words := make([]string, len(job))
	for i, stage := range job {
		for j, t := range stage {
			switch {
			case j == 0:
				words[i] = t.Action + " " + t.Target
			case t.Action == stage[j-1].Action:
				words[i] += ", " + t.Target
			default:
				words[i] += "; " + t.Action + " " + t.Target
			}
		}
	}
	return words
}

// totals are the figures of a mission.
type totals struct{ hosts, tasks, most int }

func count(m Mission) totals {
	var n totals
	all := map[string]bool{}
	for _, batch := range m {
		hosts := map[string]bool{}
		for _, job := range batch {
			hosts[job.Host()], all[job.Host()] = true, true
			for range job.All() {
				n.tasks++
			}
		}
		n.most = max(n.most, len(hosts))
	}
	n.hosts = len(all)
	return n
}
