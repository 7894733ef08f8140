package globaltask

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const namespace = "kube-system"

// mission is a plan with two tasks before the nodes.
func mission() *topsv1.UpgradePlan {
	return &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission", UID: "uid-mission"}, Spec: topsv1.UpgradePlanSpec{Revision: "fleet-2",
		Before: []topsv1.GlobalTask{{Task: "database_backup", CronJob: "backup"}, {Task: "cluster_check", CronJob: "check"}}}}
}

// jobOf returns the Job of a task of the plan, with a condition unless that is empty.
func jobOf(plan *topsv1.UpgradePlan, task int, condition batchv1.JobConditionType) *batchv1.Job {
	job := JobOf(plan, &plan.Spec.Before[task], template("gcu-task-backup"))
	if condition != "" {
		job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Message: "Job has reached the specified backoff limit."}}
	}
	return job
}

// template is a CronJob that plans may run.
func template(account string) *batchv1.CronJob {
	ttl := int32(10)
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "backup", UID: "uid-backup", Labels: map[string]string{topsv1.LabelGlobalTask: "true"}}}
	cron.Spec.JobTemplate.Labels = map[string]string{"app": "backup"}
	cron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = &ttl
	cron.Spec.JobTemplate.Spec.Template.Spec.ServiceAccountName = account
	return cron
}

// The order of tasks is strict, each is done once, and what is not known to be done holds what follows.
func TestDecide(t *testing.T) {
	first, second := JobName(mission(), &mission().Spec.Before[0]), JobName(mission(), &mission().Spec.Before[1])
	secondRecorded := []topsv1.GlobalTaskNote{{Task: "upg-server_cluster_check", Job: second, Result: "done"}}
	foreign := jobOf(mission(), 0, batchv1.JobComplete)
	foreign.OwnerReferences[0].UID = "uid-other"
	leaving := jobOf(mission(), 0, batchv1.JobFailed)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	recorded := []topsv1.GlobalTaskNote{{Task: "upg-server_database_backup", Job: first, Result: "done"}}
	for _, tt := range []struct {
		name    string
		status  []topsv1.GlobalTaskNote
		jobs    []*batchv1.Job
		next    string
		failed  bool
		message string
		results string
	}{
		{name: "the first is made", next: "database_backup", message: "waiting for upg-server_database_backup: Job kube-system/" + first, results: "undo undo"},
		{name: "the second waits for the first", jobs: []*batchv1.Job{jobOf(mission(), 0, "")}, message: "has not ended", results: "undo undo"},
		{name: "and for its end, whatever the Job expects", jobs: []*batchv1.Job{jobOf(mission(), 0, batchv1.JobSuccessCriteriaMet)}, message: "has not ended", results: "undo undo"},
		{name: "one that fails has not failed yet", jobs: []*batchv1.Job{jobOf(mission(), 0, batchv1.JobFailureTarget)}, message: "has not ended", results: "undo undo"},
		{name: "the second is made after the first", jobs: []*batchv1.Job{jobOf(mission(), 0, batchv1.JobComplete)}, next: "cluster_check", message: "Job kube-system/" + second, results: "done undo"},
		{name: "contract 91: a task that failed holds", jobs: []*batchv1.Job{jobOf(mission(), 0, batchv1.JobFailed)}, failed: true,
			message: "failed: Job has reached the specified backoff limit. See kubectl logs -n kube-system job/" + first + "; when the cause is fixed, run it again: kubectl delete job -n kube-system " + first,
			results: "fail undo"},
		{name: "one that failed and is deleted runs again, once it is gone", jobs: []*batchv1.Job{leaving}, message: "is being deleted, and is created again", results: "undo undo"},
		{name: "the Job of others is not taken for it", jobs: []*batchv1.Job{foreign}, failed: true, message: "exists, but does not belong to UpgradePlan mission", results: "fail undo"},
		{name: "what is recorded needs no Job", status: recorded, next: "cluster_check", message: second, results: "done undo"},
		{name: "what is recorded of another plan says nothing", status: []topsv1.GlobalTaskNote{{Task: "upg-server_database_backup", Job: "other", Result: "done"}},
			next: "database_backup", message: first, results: "undo undo"},
		{name: "what is recorded stays done when a task is put before it", status: secondRecorded, next: "database_backup", message: first, results: "undo done"},
		{name: "and does not run again after that task", status: secondRecorded, jobs: []*batchv1.Job{jobOf(mission(), 0, batchv1.JobComplete)}, results: "done done"},
		{name: "all are done", status: recorded, jobs: []*batchv1.Job{jobOf(mission(), 1, batchv1.JobComplete)}, results: "done done"},
		{name: "the second alone is not taken for done", jobs: []*batchv1.Job{jobOf(mission(), 1, batchv1.JobComplete)}, next: "database_backup", message: first, results: "undo undo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, jobs := mission(), map[string]*batchv1.Job{}
			plan.Status.Tasks = tt.status
			for _, job := range tt.jobs {
				jobs[job.Name] = job
			}
			p := Decide(plan, plan.Spec.Before, namespace, jobs)
			next, results := "", ""
			if p.Next != nil {
				next = p.Next.Task
			}
			for _, note := range p.Notes {
				results += " " + note.Result
			}
			if next != tt.next || p.Failed != tt.failed || !strings.Contains(p.Message, tt.message) || p.IsDone() != (tt.message == "") || results != " "+tt.results {
				t.Errorf("next %q, failed %v, %q, results%s; want %+v", next, p.Failed, p.Message, results, tt)
			}
		})
	}
}

func TestATaskThatCannotStart(t *testing.T) {
	plan := mission()
	p := Decide(plan, plan.Spec.Before, namespace, nil)
	p.Postpone("the rollout is paused")
	if p.Next != nil || p.Failed || p.Message != "waiting for upg-server_database_backup, which does not start while the rollout is paused" {
		t.Errorf("postponed: %+v", p)
	}
	p = Decide(plan, plan.Spec.Before, namespace, nil)
	p.Refuse("there is no CronJob")
	if p.Next != nil || !p.Failed || p.Message != "upg-server_database_backup cannot start: there is no CronJob" || p.Notes[0].Result != "fail" || p.Notes[0].Message != "there is no CronJob" {
		t.Errorf("refused: %+v", p)
	}
}

// A plan runs templates that were made for it, and no ServiceAccount that others have.
func TestWhichTemplatesAPlanMayRun(t *testing.T) {
	unlabeled := template("gcu-task-backup")
	unlabeled.Labels[topsv1.LabelGlobalTask] = "yes"
	for _, tt := range []struct {
		name string
		cron *batchv1.CronJob
		want string
	}{
		{"one of its own", template("gcu-task-backup"), ""},
		{"none", nil, "there is no CronJob kube-system/backup"},
		{"without the label", unlabeled, "does not have the label topsops.enflame.com/global-task=true"},
		{"without an account", template(""), `has ServiceAccount "": set serviceAccountName`},
		{"that of all pods", template("default"), `has ServiceAccount "default"`},
		{"that of the manager", template("gcu-operator"), "one of its own, whose name begins with gcu-task-"},
		{"that of the node agents", template("gcu-node-agent"), "one of its own"},
		{"that of a controller of Kubernetes", template("clusterrole-aggregation-controller"), "one of its own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Refusal(namespace, "backup", tt.cron); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestTheJobOfATask(t *testing.T) {
	plan := mission()
	job := jobOf(plan, 0, "")
	if ref := metav1.GetControllerOf(job); ref == nil || ref.Kind != "UpgradePlan" || ref.UID != plan.UID || ref.BlockOwnerDeletion != nil {
		t.Errorf("it is owned by %+v", job.OwnerReferences)
	}
	if job.Spec.TTLSecondsAfterFinished != nil {
		t.Error("it is deleted by itself, and would be made again")
	}
	if diff := cmp.Diff(map[string]string{"app": "backup"}, job.Labels); diff != "" || job.Spec.Template.Spec.ServiceAccountName != "gcu-task-backup" {
		t.Errorf("it is not made from the template: %+v", job)
	}
	names := map[string]bool{}
	for _, edit := range []func(*topsv1.UpgradePlan){
		func(*topsv1.UpgradePlan) {},
		func(p *topsv1.UpgradePlan) { p.UID = "uid-again" },
		func(p *topsv1.UpgradePlan) { p.Spec.Revision = "fleet-3" },
		func(p *topsv1.UpgradePlan) { p.Spec.Before[0].CronJob = "other" },
		func(p *topsv1.UpgradePlan) { p.Spec.Before[0].Task = "database_check" },
		func(p *topsv1.UpgradePlan) {
			p.Spec.Before[0].Task = strings.Repeat("a", 20) + "_" + strings.Repeat("b", 19)
		},
	} {
		p := mission()
		edit(p)
		name := JobName(p, &p.Spec.Before[0])
		if len(name) > 63 || names[name] {
			t.Errorf("%s has %d characters, or is that of another task", name, len(name))
		}
		names[name] = true
	}
	edited := mission()
	edited.Generation, edited.Spec.Before = 7, edited.Spec.Before[:1]
	if JobName(edited, &edited.Spec.Before[0]) != job.Name {
		t.Error("a plan that is edited does its tasks again")
	}
}
