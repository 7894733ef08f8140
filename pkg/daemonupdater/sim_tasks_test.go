package daemonupdater

import (
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/globaltask"
	"github.com/topsops/gcu-operator/test/simapi"
)

// Some plans have tasks before the nodes. Their Jobs end or fail at random, and persons delete those that failed.

const simJobs = "Job"

// tasksBefore are the tasks that precede the nodes of some plans.
func (w *simWorld) tasksBefore() []topsv1.GlobalTask {
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "backup", Labels: map[string]string{topsv1.LabelGlobalTask: "true"}}}
	cron.Spec.JobTemplate.Spec.Template.Spec.ServiceAccountName = "gcu-task-backup"
	if w.api.Objects[simapi.KeyOf(cron)] == nil {
		w.api.Put(cron)
	}
	return []topsv1.GlobalTask{{Task: "database_backup", CronJob: "backup"}, {Task: "images_backup", CronJob: "backup"}}[:1+w.plans.IntN(2)]
}

// runTasks ends some Jobs, and removes those that failed or whose plan is gone.
func (w *simWorld) runTasks() {
	for _, job := range simapi.All[*batchv1.Job](w.api, simJobs) {
		key, owner := simapi.KeyOf(job), metav1.GetControllerOf(job)
		plan := simapi.Get[*topsv1.UpgradePlan](w.api, simapi.Key{Kind: simPlans, Name: owner.Name})
		switch {
		case plan == nil || plan.UID != owner.UID:
			w.api.Remove(key)
		case len(job.Status.Conditions) > 0 && job.Status.Conditions[0].Type == batchv1.JobFailed && w.plans.IntN(8) == 0:
			w.say("person: %s is deleted", key)
			w.api.Remove(key)
		case len(job.Status.Conditions) == 0 && w.plans.IntN(12) == 0 && !w.tasksHang:
			w.endTask(key, !w.calm && w.plans.IntN(3) == 0)
		}
	}
}

func (w *simWorld) endTask(key simapi.Key, fails bool) {
	as := batchv1.JobComplete
	if fails {
		as = batchv1.JobFailed
	}
	w.say("%s ends: %s", key, as)
	w.tasksDone[key.Name] = w.tasksDone[key.Name] || !fails
	simapi.Edit(w.api, key, func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: as, Status: corev1.ConditionTrue}}
	})
}

// checkTasksBefore checks that nodes start only when the tasks that precede them were done.
func (w *simWorld) checkTasksBefore(pass *simPass, started []string) {
	for i := range pass.plan.Spec.Before {
		if name := globaltask.JobName(pass.plan, &pass.plan.Spec.Before[i]); !w.tasksDone[name] {
			w.violate("plan: %v start before %s is done", started, name)
		}
	}
}

// Its Job never ends; a node that has just lost its pod cannot wait for it.
func TestANodeInFlightGoesOnWhileATaskBeforeTheNodesIsAwaited(t *testing.T) {
	schedule(t, []string{"exporter", "gfd"}, func(s *simSchedule) {
		for _, key := range s.g.sets {
			simapi.Edit(s.api, key, func(ds *appsv1.DaemonSet) { ds.Labels[topsv1.LabelComponent] = key.Name })
		}
		s.plans, s.tasksHang = rand.New(rand.NewPCG(1, 15)), true
		s.getsAll("hang-1")
		node := s.begins()
		s.getsAll("good-2")
		spec := s.planOf(s.g, []string{"n00", "n01", "n02"}, func(string) bool { return true })
		spec.Before = s.tasksBefore()
		s.follow(s.g, spec)
		s.worksUntil(s.a, "the node in flight has the version of the plan", time.Hour, func() bool {
			s.runTasks()
			return s.replaced(node, "good-2") == 2
		})
		s.works(s.a, time.Hour)
		s.inFlight(0)
		for _, h := range s.hosts {
			if h.name != node && s.replaced(h.name, "good-2") > 0 {
				s.violate("%s starts", h.name)
			}
		}
		s.tasksHang = false
		s.worksUntil(s.a, "the plan is done", time.Hour, func() bool {
			s.runTasks()
			s.approveBatch(s.g)
			return int(simapi.Get[*topsv1.UpgradePlan](s.api, simPlanKey(s.g)).Status.Done) == len(s.hosts)
		})
	})
}
