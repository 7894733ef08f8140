// Package globaljobs runs the global tasks of a plan, each as a Job.
package globaljobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/globaltask"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=batch,namespace=kube-system,resources=cronjobs,verbs=get

// recheckRefused is the time to the next attempt for a refused Job: no event says that a CronJob was corrected.
const recheckRefused = 30 * time.Second

// Runner creates the Jobs.
type Runner struct {
	access.Cluster
	// Namespace of the CronJobs and the Jobs.
	Namespace string
}

// Before runs the plan's global tasks that precede the nodes. Until they are done, no node starts. An error is left in the
// pass, which goes on for the nodes in flight.
func (r Runner) Before(ctx context.Context, p *pass.Pass) {
	plan := p.Plan.InForce()
	if plan == nil {
		return
	}
	progress, err := r.run(ctx, p, plan.Object, plan.Object.Spec.Before)
	if err != nil {
		p.In.Beforehand, p.Globals = interrupted(p, err), plan.Object.Status.Tasks
		return
	}
	p.In.Beforehand = observed.AwaitsGlobalTask(&progress)
	p.Globals = slices.Concat(progress.Notes, globaltask.Decide(plan.Object, plan.Object.Spec.After, r.Namespace, nil).Notes)
}

// interrupted leaves the error of a task in the pass, and returns what awaits the task.
func interrupted(p *pass.Pass, err error) *rollout.Blocked {
	p.TaskError = err
	return &rollout.Blocked{Reason: topsv1.ReasonAwaitingGlobalTask, Message: err.Error()}
}

// After runs the plan's global tasks that follow the nodes, once nothing is left to do on the plan's reachable nodes.
// Until they are done, the rollout is not complete. An error is left in the pass, which goes on for nodes outside the plan
// and stores that the plan's nodes are done.
func (r Runner) After(ctx context.Context, p *pass.Pass) {
	plan := p.Plan.InForce()
	if plan == nil || p.In.Blocked != nil || p.In.Beforehand != nil || len(plan.Object.Spec.After) == 0 {
		return
	}
	if !report.PlanIsComplete(plan, &p.In, &p.Decision) {
		if report.IsComplete(p.In, p.Decision) { // or else the nodes keep it from being complete
			p.In.Afterwards = awaitsNodes(p, plan.Object)
		}
		return
	}
	progress, err := r.run(ctx, p, plan.Object, plan.Object.Spec.After)
	if err != nil {
		p.In.Afterwards = interrupted(p, err)
		return
	}
	p.In.Afterwards = observed.AwaitsGlobalTask(&progress)
	p.Globals = slices.Concat(p.Globals[:len(plan.Object.Spec.Before)], progress.Notes)
}

// awaitsNodes returns what keeps the tasks after the nodes from running although no reachable node has work left, nil if all
// of them are recorded as done.
func awaitsNodes(p *pass.Pass, plan *topsv1.UpgradePlan) *rollout.Blocked {
	i := slices.IndexFunc(plan.Spec.After, func(t topsv1.GlobalTask) bool { return !globaltask.IsRecorded(plan, globaltask.JobName(plan, &t)) })
	if i < 0 {
		return nil
	}
	reason, why := topsv1.ReasonAwaitingGlobalTask, fmt.Sprintf("no node of UpgradePlan %s that is done is Ready", plan.Name)
	if !p.Decision.AllReached {
		why = p.Decision.NotReached
		if p.Decision.Unapproved != "" {
			reason = string(rollout.ReasonAwaitingApproval)
		}
	}
	return &rollout.Blocked{Reason: reason, Message: fmt.Sprintf("waiting for %s, which comes after the nodes: %s", planfile.GlobalName(&plan.Spec.After[i]), why)}
}

// run reads the Jobs of tasks, and creates the next one unless the rollout is paused or ends.
func (r Runner) run(ctx context.Context, p *pass.Pass, plan *topsv1.UpgradePlan, tasks []topsv1.GlobalTask) (globaltask.Progress, error) {
	jobs := map[string]*batchv1.Job{}
	for i := range tasks {
		name := globaltask.JobName(plan, &tasks[i])
		if globaltask.IsRecorded(plan, name) {
			continue
		}
		job := &batchv1.Job{}
		switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, job); {
		case err == nil:
			jobs[name] = job
		case !apierrors.IsNotFound(err):
			return globaltask.Progress{}, fmt.Errorf("getting Job %s of UpgradePlan %s: %w", name, plan.Name, err)
		}
	}
	progress := globaltask.Decide(plan, tasks, r.Namespace, jobs)
	switch {
	case progress.Next == nil:
		return progress, nil
	case p.In.Settings.Paused || p.In.Ending:
		progress.Postpone("the rollout is paused, or ends")
		return progress, nil
	}
	refusal, err := r.create(ctx, plan, progress.Next)
	if refusal != "" {
		progress.Refuse(refusal)
		p.Again = recheckRefused
	}
	return progress, err
}

// create creates the Job of a task. It returns why that is refused, "" if it is not.
func (r Runner) create(ctx context.Context, plan *topsv1.UpgradePlan, task *topsv1.GlobalTask) (refusal string, err error) {
	cron := &batchv1.CronJob{}
	switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: task.CronJob}, cron); {
	case apierrors.IsNotFound(err):
		cron = nil
	case podreplace.IsDenied(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("getting CronJob %s: %w", task.CronJob, err)
	}
	if refusal := globaltask.Refusal(r.Namespace, task.CronJob, cron); refusal != "" {
		return refusal, nil
	}
	job := globaltask.JobOf(plan, task, cron)
	log.FromContext(ctx).Info("Creating Job of a plan", "Job", klog.KObj(job), "UpgradePlan", plan.Name, "task", task.Task, "CronJob", task.CronJob)
	switch err := r.Create(ctx, job, access.StrictFields); {
	case podreplace.IsDenied(err) && !passes(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("creating Job %s of UpgradePlan %s: %w", job.Name, plan.Name, err)
	}
	return "", nil
}

// passes reports whether a refusal is of the moment: the Job was created in between, which the next pass reads, a quota changed
// meanwhile, or the API server has just started. A denial is not, whatever its code.
func passes(err error) bool {
	return !denial.ByAdmission(err) && (denial.IsAlreadyExists(err) || denial.IsConflict(err) || apierrors.IsUnauthorized(err))
}
