package upgradeplan

import (
	"errors"
	"fmt"
	"iter"
)

// A mission is all tasks of an upgrade in the order in which they run: batches of jobs of stages of tasks.
// The name is a term of the contract (statement 92, decision D22); it is a four-dimensional array, also in
// JSON. It can be written or edited by hand before and between runs (statement 96); Validate checks it.
type (
	// Stage is tasks of one host that run at the same time.
	Stage []Task
	// Job is the stages of one host, one after the other: the unit given to a node.
	Job []Stage
	// Batch is jobs that run at the same time.
	Batch []Job
	// Mission is all batches of an upgrade, one after the other.
	Mission []Batch
)

// Host returns the host of the job's tasks, "" for a job without tasks.
func (j Job) Host() string {
	for t := range j.All() {
		return t.Host
	}
	return ""
}

// All returns every task of the job in order.
func (j Job) All() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, stage := range j {
			for _, t := range stage {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// All returns every task of the mission in order.
func (m Mission) All() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, batch := range m {
			for _, job := range batch {
				for t := range job.All() {
					if !yield(t) {
						return
					}
				}
			}
		}
	}
}

// Validate returns an error for the first fault that makes the mission unfit to run: an empty
// batch, job or stage, an invalid name, a job with two hosts, or a duplicate task. It does
// not check the order, which may be any.
func (m Mission) Validate() error {
	seen := map[Task]bool{}
	for i, batch := range m {
		if len(batch) == 0 {
			return fmt.Errorf("batch %d has no jobs", i+1)
		}
		for _, job := range batch {
			if err := job.validate(seen); err != nil {
				return fmt.Errorf("batch %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// Validate is Mission.Validate for one job.
func (j Job) Validate() error { return j.validate(map[Task]bool{}) }

func (j Job) validate(seen map[Task]bool) error {
	if len(j) == 0 {
		return errors.New("a job has no stages")
	}
	host := j.Host()
	for i, stage := range j {
		if len(stage) == 0 {
			return fmt.Errorf("stage %d of the job of host %q has no tasks", i+1, host)
		}
		for _, t := range stage {
			if err := t.Validate(); err != nil {
				return err
			}
			if t.Host != host {
				return fmt.Errorf("task %s is in a job of host %s", t, host)
			}
			if seen[t] {
				return fmt.Errorf("task %s appears twice", t)
			}
			seen[t] = true
		}
	}
	return nil
}
