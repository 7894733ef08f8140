package daemonupdater

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
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/globaltask"
)

// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=batch,namespace=kube-system,resources=cronjobs,verbs=get

// refusedAgain is when to look again whether a Job can be made: no event says that a CronJob was corrected.
const refusedAgain = 30 * time.Second

// globalTasks makes the Jobs of the tasks of a plan that belong to no node.
type globalTasks struct {
	access.Cluster
	// namespace has the CronJobs and the Jobs.
	namespace string
}

// before has the tasks before the nodes done. Until they are, the group is blocked.
func (g globalTasks) before(ctx context.Context, p *pass) error {
	plan := p.Plan.InForce()
	if plan == nil {
		return nil
	}
	progress, err := g.run(ctx, p, plan.Object, plan.Object.Spec.Before)
	if err != nil {
		return err
	}
	p.in.Blocked = observed.AwaitsGlobalTask(&progress)
	p.awaitsGlobal = p.in.Blocked != nil
	p.globals = slices.Concat(progress.Notes, globaltask.Decide(plan.Object, plan.Object.Spec.After, g.namespace, nil).Notes)
	return nil
}

// after has the tasks after the nodes done, once nothing is left to do on the reachable nodes of the plan.
// Until they are, the rollout is not complete.
func (g globalTasks) after(ctx context.Context, p *pass) error {
	plan := p.Plan.InForce()
	if plan == nil || p.in.Blocked != nil || len(plan.Object.Spec.After) == 0 || !report.PlanIsThrough(plan, &p.decision) {
		return nil
	}
	progress, err := g.run(ctx, p, plan.Object, plan.Object.Spec.After)
	if err != nil {
		return err
	}
	p.in.Afterwards = observed.AwaitsGlobalTask(&progress)
	p.globals = slices.Concat(p.globals[:len(plan.Object.Spec.Before)], progress.Notes)
	return nil
}

// run reads the Jobs of tasks, and makes the next one unless the rollout is paused or ends.
func (g globalTasks) run(ctx context.Context, p *pass, plan *topsv1.UpgradePlan, tasks []topsv1.GlobalTask) (globaltask.Progress, error) {
	jobs := map[string]*batchv1.Job{}
	for i := range tasks {
		name := globaltask.JobName(plan, &tasks[i])
		if globaltask.IsRecorded(plan, name) {
			continue
		}
		job := &batchv1.Job{}
		switch err := g.Live.Get(ctx, client.ObjectKey{Namespace: g.namespace, Name: name}, job); {
		case err == nil:
			jobs[name] = job
		case !apierrors.IsNotFound(err):
			return globaltask.Progress{}, fmt.Errorf("getting Job %s of UpgradePlan %s: %w", name, plan.Name, err)
		}
	}
	progress := globaltask.Decide(plan, tasks, g.namespace, jobs)
	switch {
	case progress.Next == nil:
		return progress, nil
	case p.in.Settings.Paused || p.in.Ending:
		progress.Postpone("the rollout is paused, or ends")
		return progress, nil
	}
	refusal, err := g.create(ctx, plan, progress.Next)
	if refusal != "" {
		progress.Refuse(refusal)
		p.again = refusedAgain
	}
	return progress, err
}

// create makes the Job of a task. It returns why that is refused, "" if it is not.
func (g globalTasks) create(ctx context.Context, plan *topsv1.UpgradePlan, task *topsv1.GlobalTask) (refusal string, err error) {
	cron := &batchv1.CronJob{}
	switch err := g.Live.Get(ctx, client.ObjectKey{Namespace: g.namespace, Name: task.CronJob}, cron); {
	case apierrors.IsNotFound(err):
		cron = nil
	case podreplace.IsDenied(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("getting CronJob %s: %w", task.CronJob, err)
	}
	if refusal := globaltask.Refusal(g.namespace, task.CronJob, cron); refusal != "" {
		return refusal, nil
	}
	job := globaltask.JobOf(plan, task, cron)
	log.FromContext(ctx).Info("Creating Job of a plan", "Job", klog.KObj(job), "UpgradePlan", plan.Name, "task", task.Task, "CronJob", task.CronJob)
	switch err := g.Create(ctx, job, access.Whole); {
	case podreplace.IsDenied(err) && !apierrors.IsAlreadyExists(err): // that one was made in between: the next pass reads it
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("creating Job %s of UpgradePlan %s: %w", job.Name, plan.Name, err)
	}
	return "", nil
}
