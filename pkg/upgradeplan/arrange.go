package upgradeplan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Plan generates the tasks of the nodes and arranges them in batches of at most size nodes; 0
// means no limit. It combines Generate, Batches and Arrange, and returns their errors.
func Plan(book LogicBook, nodes []Node, size int) (Mission, error) {
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
	batches, err := batchesOf(book, slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !busy[n.Name] }), size)
	if err != nil {
		return nil, err
	}
	return r.arrange(tasks, batches)
}

// batchesOf divides the nodes, by name, into the batches in which they are upgraded. Waves
// follow each other, control plane nodes are placed within their wave by the book, and
// neither shares a batch with others; otherwise the given order is kept. A batch has at most
// size nodes, such as max-unavailable as a number of nodes; 0 means no limit. A negative size
// is an error.
func batchesOf(book LogicBook, nodes []Node, size int) ([][]string, error) {
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

// turn is the position of the node's role within its wave.
func (b LogicBook) turn(n Node) int {
	switch {
	case !n.ControlPlane, b.ControlPlane == Any, b.ControlPlane == "":
		return 0
	case b.ControlPlane == First:
		return -1
	}
	return 1
}

// Arrange puts tasks into the order of the book: on each host by steps, over the fleet batch
// by batch, with jobs by groupBy. Batches are names of hosts, in the order of upgrades;
// arranging the tasks of a mission again re-batches it (contract statement 93).
//
// The error names a task that is duplicated, has no place in the book, or whose host is in no
// batch, or a host that is in two batches. A host without tasks is left out.
func Arrange(book LogicBook, tasks []Task, batches [][]string) (Mission, error) {
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
	var m Mission
	runs := r.runs()
	for _, group := range queues {
		for _, run := range runs {
			if b := r.batch(group, run); len(b) > 0 {
				m = append(m, b)
			}
		}
	}
	return m, nil
}

// batch takes the jobs of one run from the queues of the hosts.
func (r *rules) batch(group []*queue, run span) Batch {
	var b Batch
	for _, q := range group {
		job := q.take(run.to)
		if r.byTask[run.from] {
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

// queue holds the remaining tasks of one host, in the order of the book.
type queue struct {
	tasks  []Task
	places []place
}

// take removes the tasks of all steps before end, with one stage per step.
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

// queue sorts the tasks by host and place, with the hosts grouped as in batches.
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
		// Nodes are alike: the average capacity suffices for most.
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
			faults = append(faults, fmt.Errorf("task %s appears twice", t))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return queues, nil
}

// insert keeps the queue sorted. It returns false when the place is taken, which only the
// same task can have done.
func (q *queue) insert(t Task, p place) bool {
	i, taken := slices.BinarySearchFunc(q.places, p, place.compare)
	if taken {
		return false
	}
	q.tasks = slices.Insert(q.tasks, i, t)
	q.places = slices.Insert(q.places, i, p)
	return true
}
