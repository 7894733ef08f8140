package upgradeplan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Plan generates the tasks of the nodes and arranges them in batches of at most
// size nodes; 0 is no limit. It is Generate, Batches and Arrange in one; the
// errors are theirs.
func Plan(book Book, nodes []Node, size int) (Mission, error) {
	r, err := newRules(book)
	if err != nil {
		return nil, err
	}
	tasks, err := r.generate(nodes)
	if err != nil {
		return nil, err
	}
	busy := make(map[string]bool, len(nodes))
	for _, t := range tasks {
		busy[t.Host] = true
	}
	batches, err := Batches(book, slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !busy[n.Name] }), size)
	if err != nil {
		return nil, err
	}
	return r.arrange(tasks, batches)
}

// Batches divides the nodes into the batches in which they are upgraded, by
// name. Waves come one after the other, control plane nodes where the book puts
// them within their wave, and neither shares a batch with others; otherwise the
// order is the order given. A batch has at most size nodes, such as
// max-unavailable as a number of nodes; 0 is no limit. The error says that size
// is negative.
func Batches(book Book, nodes []Node, size int) ([][]string, error) {
	if size < 0 {
		return nil, fmt.Errorf("the size of a batch is %d: it may be 0, for no limit, or more", size)
	}
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Wave, b.Wave), cmp.Compare(book.turn(a), book.turn(b)))
	})
	var batches [][]string
	for i, n := range nodes {
		last := len(batches) - 1
		fresh := i == 0 || n.Wave != nodes[i-1].Wave || book.turn(n) != book.turn(nodes[i-1])
		if fresh || size > 0 && len(batches[last]) == size {
			batches = append(batches, nil)
			last++
		}
		batches[last] = append(batches[last], n.Name)
	}
	return batches, nil
}

// turn is the place of the node's role within its wave.
func (b Book) turn(n Node) int {
	switch {
	case !n.ControlPlane, b.ControlPlane == Any, b.ControlPlane == "":
		return 0
	case b.ControlPlane == First:
		return -1
	}
	return 1
}

// Arrange puts tasks into the order of the book: on each host by its steps,
// over the fleet batch by batch, with jobs as groupBy says. Batches are names
// of hosts. They come from Batches, or from a person who wants another order:
// arranging the tasks of a mission anew is how it is re-batched (contract
// statement 93).
//
// The error says which task is there twice, has no place in the book or a host
// in no batch, or which host is in two batches. A host without tasks is left
// out.
func Arrange(book Book, tasks []Task, batches [][]string) (Mission, error) {
	r, err := newRules(book)
	if err != nil {
		return nil, err
	}
	return r.arrange(tasks, batches)
}

func (r *rules) arrange(tasks []Task, batches [][]string) (Mission, error) {
	queues, err := r.queue(tasks, batches)
	if err != nil {
		return nil, err
	}
	var all []*queue
	for _, group := range queues {
		all = append(all, group...)
	}
	var m Mission
	for _, section := range r.sections() {
		groups := queues
		if r.steps[section.from].fleet {
			groups = [][]*queue{all}
		}
		for _, group := range groups {
			for _, run := range r.runs(section) {
				if b := r.batch(group, run); len(b) > 0 {
					m = append(m, b)
				}
			}
		}
	}
	return m, nil
}

// batch takes the jobs of a run from the queues of the hosts.
func (r *rules) batch(group []*queue, run span) Batch {
	var b Batch
	for _, q := range group {
		job := q.take(run.to)
		if r.steps[run.from].byTask {
			for _, stage := range job {
				for i := range stage {
					b = append(b, Job{stage[i : i+1 : i+1]})
				}
			}
		} else if len(job) > 0 {
			b = append(b, job)
		}
	}
	return b
}

// queue is the tasks of one host in the order of the book. What was taken is
// gone.
type queue struct {
	tasks  []Task
	places []place
}

// take removes the tasks of all steps before end, a stage for each step.
func (q *queue) take(end int) Job {
	n, stages := 0, 0
	for n < len(q.tasks) && q.places[n].step < end {
		if n == 0 || q.places[n].step != q.places[n-1].step {
			stages++
		}
		n++
	}
	if n == 0 {
		return nil
	}
	job := make(Job, 0, stages)
	for from := 0; from < n; {
		to := from + 1
		for to < n && q.places[to].step == q.places[from].step {
			to++
		}
		job = append(job, Stage(q.tasks[from:to:to]))
		from = to
	}
	q.tasks, q.places = q.tasks[n:], q.places[n:]
	return job
}

// queue sorts the tasks by host and place. The groups are those of batches.
func (r *rules) queue(tasks []Task, batches [][]string) ([][]*queue, error) {
	var faults []error
	queues := make([][]*queue, len(batches))
	byHost := map[string]*queue{}
	for i, hosts := range batches {
		for _, host := range hosts {
			if byHost[host] != nil {
				faults = append(faults, fmt.Errorf("host %s is in two places of the batches", host))
				continue
			}
			byHost[host] = &queue{}
			queues[i] = append(queues[i], byHost[host])
		}
	}
	for _, q := range byHost {
		// Nodes are much alike: the average is room enough for most.
		q.tasks = make([]Task, 0, len(tasks)/len(byHost)+1)
		q.places = make([]place, 0, cap(q.tasks))
	}
	for _, t := range tasks {
		p, ok := r.places[pair{t.Target, t.Action}]
		q := byHost[t.Host]
		switch {
		case !ok:
			faults = append(faults, fmt.Errorf("task %s has no place in the logic book", t))
		case q == nil:
			faults = append(faults, fmt.Errorf("task %s: its host is in no batch", t))
		case !q.insert(t, p):
			faults = append(faults, fmt.Errorf("task %s is there twice", t))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return queues, nil
}

// insert keeps the queue sorted. It reports false for a place that is taken,
// which only the same task can have.
func (q *queue) insert(t Task, p place) bool {
	i, taken := slices.BinarySearchFunc(q.places, p, place.compare)
	if taken {
		return false
	}
	q.tasks = slices.Insert(q.tasks, i, t)
	q.places = slices.Insert(q.places, i, p)
	return true
}
