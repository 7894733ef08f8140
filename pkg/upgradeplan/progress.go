package upgradeplan

// Outcome is the state of a task according to facts, not memory (design section 4): a task
// that is running, or was running when a program died, is NotDone.
type Outcome string

// Outcomes of a task.
const (
	// NotDone: not run, or not completed.
	NotDone Outcome = ""
	// Done: run and succeeded.
	Done Outcome = "done"
	// Failed: run and failed. To retry it, report NotDone.
	Failed Outcome = "fail"
	// Skipped: left out by a person; later tasks may run.
	Skipped Outcome = "skip"
)

// Progress is the state of a job.
type Progress struct {
	// Next are the tasks that may run now, all of one stage.
	Next []Task
	// Failed are the failed tasks of that stage. They block all later stages until they are
	// retried or skipped; Next can run meanwhile.
	Failed []Task
}

// Complete reports whether every task is done or skipped.
func (p Progress) Complete() bool { return len(p.Next) == 0 && len(p.Failed) == 0 }

// Progress returns the first stage that is not complete. Call it after every change: the
// caller needs no state of its own and resumes at the right task after a restart.
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
