package upgradeplan

// Outcome is what became of a task. Who runs a task knows it from facts, not
// from memory (design section 4): a task that is running, or was running when a
// program died, is NotDone.
type Outcome string

// Outcomes of a task.
const (
	// NotDone is a task that was not run, or not to its end.
	NotDone Outcome = ""
	// Done is a task that was run and succeeded.
	Done Outcome = "done"
	// Failed is a task that was run and failed. To retry it is to call it NotDone.
	Failed Outcome = "fail"
	// Skipped is a task that a person leaves out: what comes after it may run.
	Skipped Outcome = "skip"
)

// Result is what became of a mission (contract statement 93): three sets, each
// in the order of the mission. When everything succeeded there is only done.
type Result struct {
	// Done were run and succeeded.
	Done []Task `json:"done,omitempty"`
	// Fail were run and failed.
	Fail []Task `json:"fail,omitempty"`
	// Undo were not run: not reached, or skipped. (It is the source's word;
	// nothing is undone.)
	Undo []Task `json:"undo,omitempty"`
}

// Result sorts the tasks of the mission by their outcome.
func (m Mission) Result(outcome func(Task) Outcome) Result {
	var r Result
	for t := range m.All() {
		switch outcome(t) {
		case Done:
			r.Done = append(r.Done, t)
		case Failed:
			r.Fail = append(r.Fail, t)
		default:
			r.Undo = append(r.Undo, t)
		}
	}
	return r
}

// Progress says where a job stands.
type Progress struct {
	// Next are the tasks that may run now, all of one stage.
	Next []Task
	// Failed are the tasks of that stage that failed. They hold all later stages
	// until they are retried or skipped; the rest of Next goes on.
	Failed []Task
}

// Complete reports that every task is done or skipped.
func (p Progress) Complete() bool { return len(p.Next) == 0 && len(p.Failed) == 0 }

// Progress finds the first stage that is not complete. It is asked anew after
// every change, so whoever runs the job needs no memory of its own and goes on
// at the right task after it died.
func (j Job) Progress(outcome func(Task) Outcome) Progress {
	for _, stage := range j {
		var p Progress
		for _, t := range stage {
			switch outcome(t) {
			case Done, Skipped:
			case Failed:
				p.Failed = append(p.Failed, t)
			default:
				p.Next = append(p.Next, t)
			}
		}
		if !p.Complete() {
			return p
		}
	}
	return Progress{}
}
