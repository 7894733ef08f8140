package upgradeplan

import "slices"

// Selection selects the tasks that all of its lists allow. A nil list allows everything, an
// empty one nothing.
type Selection struct {
	// Hosts are names of nodes.
	Hosts []string `json:"hosts,omitzero"`
	// Targets are names of components, or of other targets.
	Targets []string `json:"targets,omitzero"`
	// Instances are targets on hosts, for a selection that differs between hosts.
	Instances []Instance `json:"instances,omitzero"`
	// Actions are names of actions.
	Actions []string `json:"actions,omitzero"`
	// Tasks are single tasks.
	Tasks []Task `json:"tasks,omitzero"`
}

// Instance is one target on one host.
type Instance struct {
	Host   string `json:"host"`
	Target string `json:"target"`
}

// Intersect returns the selection of the tasks that both select.
func (s Selection) Intersect(other Selection) Selection {
	return Selection{
		Hosts:     both(s.Hosts, other.Hosts),
		Targets:   both(s.Targets, other.Targets),
		Instances: both(s.Instances, other.Instances),
		Actions:   both(s.Actions, other.Actions),
		Tasks:     both(s.Tasks, other.Tasks),
	}
}

// both returns the values in a and in b, where nil means all.
func both[T comparable](a, b []T) []T {
	if a == nil {
		return slices.Clone(b)
	}
	if b == nil {
		return slices.Clone(a)
	}
	keep := newSet(b)
	return slices.DeleteFunc(append([]T{}, a...), func(v T) bool { return !keep.has(v) })
}

// Cut returns the selected tasks of the mission in its order; stages, jobs and batches that
// become empty are dropped (contract statement 93). The mission is not modified. A mission
// edited by hand is cut like any other.
//
// The selection is taken literally: cut to a driver, the mission has no cordon and no
// eviction. To upgrade fewer components with everything they need, Narrow the nodes before
// planning.
func Cut(m Mission, s Selection) Mission {
	keep := newFilter(s)
	var cut Mission
	for _, batch := range m {
		if b := cutBatch(batch, keep); len(b) > 0 {
			cut = append(cut, b)
		}
	}
	return cut
}

func cutBatch(batch Batch, keep filter) Batch {
	var cut Batch
	for _, job := range batch {
		if j := cutJob(job, keep); len(j) > 0 {
			cut = append(cut, j)
		}
	}
	return cut
}

func cutJob(job Job, keep filter) Job {
	var cut Job
	for _, stage := range job {
		var s Stage
		for _, t := range stage {
			if keep.task(t) {
				s = append(s, t)
			}
		}
		if len(s) > 0 {
			cut = append(cut, s)
		}
	}
	return cut
}

// Narrow returns the nodes as if only the selected components had changed on them: a plan for
// them then has the cordon, the eviction and the restarts that these components need, and no
// others. Actions and Tasks of the selection are ignored. The nodes are not modified.
func Narrow(nodes []Node, s Selection) []Node {
	s.Actions, s.Tasks = nil, nil
	keep := newFilter(s)
	narrow := slices.Clone(nodes)
	for i, n := range narrow {
		narrow[i].Changed = slices.DeleteFunc(slices.Clone(n.Changed), func(c string) bool {
			return !keep.task(Task{Host: n.Name, Target: c})
		})
	}
	return narrow
}

// filter is a selection prepared for lookups.
type filter struct {
	hosts, targets, actions set[string]
	instances               set[Instance]
	tasks                   set[Task]
}

func newFilter(s Selection) filter {
	return filter{newSet(s.Hosts), newSet(s.Targets), newSet(s.Actions), newSet(s.Instances), newSet(s.Tasks)}
}

func (f filter) task(t Task) bool {
	return f.hosts.has(t.Host) && f.targets.has(t.Target) && f.actions.has(t.Action) && f.instances.has(Instance{t.Host, t.Target}) && f.tasks.has(t)
}

// set is a set of values; nil contains everything.
type set[T comparable] map[T]struct{}

func newSet[T comparable](values []T) set[T] {
	if values == nil {
		return nil
	}
	s := make(set[T], len(values))
	for _, v := range values {
		s[v] = struct{}{}
	}
	return s
}

func (s set[T]) has(v T) bool {
	_, ok := s[v]
	return ok || s == nil
}
