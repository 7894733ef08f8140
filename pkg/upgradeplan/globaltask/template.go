package globaltask

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// AccountPrefix is the prefix of the names of ServiceAccounts of global tasks: the admission policy
// gcu-operator-workloads (config/admission) lets the manager use no others for a plan.
const AccountPrefix = "gcu-task-"

// Refusal returns why the template of a CronJob may not be run for a plan, "" if it may. cron is nil
// if there is none of that name.
func Refusal(namespace, name string, cron *batchv1.CronJob) string {
	if cron == nil {
		return fmt.Sprintf("there is no CronJob %s/%s: create it, or remove the task from the plan", namespace, name)
	}
	account := cron.Spec.JobTemplate.Spec.Template.Spec.ServiceAccountName
	switch {
	case cron.Labels[topsv1.LabelGlobalTask] != "true":
		return fmt.Sprintf("CronJob %s/%s does not have the label %s=true, with which an administrator allows plans to run it", namespace, name, topsv1.LabelGlobalTask)
	case !strings.HasPrefix(account, AccountPrefix):
		return fmt.Sprintf("CronJob %s/%s has ServiceAccount %q: set serviceAccountName in its template to one of its own, whose name begins with %s",
			namespace, name, account, AccountPrefix)
	}
	return ""
}

// JobName returns the name of the Job of a task. It differs for another revision, another template or a
// plan that was created again, because that is another task.
func JobName(plan *topsv1.UpgradePlan, task *topsv1.GlobalTask) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(plan.UID), plan.Spec.Revision, task.Task, task.CronJob}, "\n")))
	return planfile.GlobalHost + "-" + strings.ReplaceAll(task.Task, "_", "-") + "-" + hex.EncodeToString(sum[:4])
}

// JobOf returns the Job of a task, made from the template of its CronJob. It is deleted with the
// plan and has no TTL: while it exists, the task is not run again.
func JobOf(plan *topsv1.UpgradePlan, task *topsv1.GlobalTask, cron *batchv1.CronJob) *batchv1.Job {
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{Spec: template.Spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: cron.Namespace, Name: JobName(plan, task), Labels: template.Labels, Annotations: template.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(plan, topsv1.GroupVersion.WithKind(planfile.Kind))},
	}}
	job.OwnerReferences[0].BlockOwnerDeletion = nil
	job.Spec.TTLSecondsAfterFinished = nil
	return job
}
