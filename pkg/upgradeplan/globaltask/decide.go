package globaltask

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// Progress is how far the tasks before the nodes are, or those after them.
type Progress struct {
	// Notes are the results so far, in the order of the tasks.
	Notes []topsv1.GlobalTaskNote
	// Next is the task whose Job has to be created now, nil for none.
	Next *topsv1.GlobalTask
	// Failed: a person has to act before the tasks go on.
	Failed bool
	// Message says what is awaited or, if Failed, what to do; "" if all tasks are done.
	Message string
	// current is the index of the first task that is not done.
	current int
}

// IsDone reports whether all tasks are done.
func (p *Progress) IsDone() bool { return p.Message == "" }

// Postpone records why the Job of Next is not created now.
func (p *Progress) Postpone(why string) {
	p.Next, p.Message = nil, fmt.Sprintf("waiting for %s, which does not start while %s", p.Notes[p.current].Task, why)
}

// Refuse records why the Job of Next cannot be created.
func (p *Progress) Refuse(why string) {
	p.Next = nil
	p.fail(fmt.Sprintf("%s cannot start: %s", p.Notes[p.current].Task, why), why)
}

func (p *Progress) fail(message, note string) {
	p.Failed, p.Message = true, message
	p.Notes[p.current].Result, p.Notes[p.current].Message = string(planfile.Fail), note
}

// Decide returns the progress of tasks of a plan, which run one after the other. A task that is done in the status
// of the plan stays done, also if one before it is not. jobs are the Jobs of the tasks in the namespace of the operator, by name; nil for one
// that does not exist.
func Decide(plan *topsv1.UpgradePlan, tasks []topsv1.GlobalTask, namespace string, jobs map[string]*batchv1.Job) Progress {
	p := Progress{current: -1}
	for i := range tasks {
		note := topsv1.GlobalTaskNote{Task: planfile.GlobalName(&tasks[i]), Job: JobName(plan, &tasks[i]), Result: string(planfile.NotDone)}
		job := jobs[note.Job]
		completed := job != nil && metav1.IsControlledBy(job, plan) && condition(job, batchv1.JobComplete) != nil
		if IsRecorded(plan, note.Job) || p.current < 0 && completed {
			note.Result = string(planfile.Done)
		}
		if p.Notes = append(p.Notes, note); p.current >= 0 || note.Result == string(planfile.Done) {
			continue
		}
		p.current = i
		p.await(plan, &tasks[i], namespace, job)
	}
	return p
}

// await records what the current task waits for.
func (p *Progress) await(plan *topsv1.UpgradePlan, task *topsv1.GlobalTask, namespace string, job *batchv1.Job) {
	note := &p.Notes[p.current]
	p.Message = fmt.Sprintf("waiting for %s: Job %s/%s has not ended", note.Task, namespace, note.Job)
	if job == nil {
		p.Next = task
		return
	}
	remove := fmt.Sprintf("kubectl delete job -n %s %s", namespace, note.Job)
	switch failed := condition(job, batchv1.JobFailed); {
	case !metav1.IsControlledBy(job, plan):
		why := fmt.Sprintf("Job %s/%s exists, but does not belong to UpgradePlan %s; if it is not needed: %s", namespace, note.Job, plan.Name, remove)
		p.fail(note.Task+" cannot start: "+why, why)
	case job.DeletionTimestamp != nil: // then it is created again
		p.Message = fmt.Sprintf("waiting for %s: Job %s/%s is being deleted, and is created again afterwards", note.Task, namespace, note.Job)
	case failed != nil:
		why := fmt.Sprintf("Job %s/%s failed: %s", namespace, note.Job, strings.TrimSuffix(failed.Message, "."))
		p.fail(fmt.Sprintf("%s: %s. See kubectl logs -n %s job/%s; when the cause is fixed, run it again: %s",
			note.Task, why, namespace, note.Job, remove), why)
	}
}

// IsRecorded reports whether the status of a plan says that the task of a Job is done.
func IsRecorded(plan *topsv1.UpgradePlan, job string) bool {
	for i := range plan.Status.Tasks {
		if n := &plan.Status.Tasks[i]; n.Job == job {
			return n.Result == string(planfile.Done)
		}
	}
	return false
}

// condition returns a condition of a Job if it is True, else nil. Complete and Failed are final.
func condition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
