package hostile

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

// globalStory is a gr of one DaemonSet with an outdated pod on one node, which follows a plan with the global tasks
// backup and check before the node, and verify after it.
type globalStory struct {
	t     *testing.T
	admin client.Client
	ds    *appsv1.DaemonSet
	pod   *corev1.Pod
	plan  *topsv1.UpgradePlan
}

func newGlobalStory(t *testing.T, s *apiserver.Server) *globalStory {
	t.Helper()
	admin := s.Client(t, apiserver.Admin)
	const name = "global"
	key := client.ObjectKey{Namespace: apiserver.Namespace, Name: name}
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: fixture.SpecNaming(key)}
	check(t, admin.Create(t.Context(), gr))
	t.Cleanup(func() { check(t, client.IgnoreNotFound(admin.Delete(context.Background(), gr))) })
	ds := daemonSet(name, "", fixture.ControlledBy(topsv1.GroupVersion.String(), topsv1.GcuResourceKind, gr.Name, gr.UID))
	ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	ds.Labels = map[string]string{topsv1.LabelGcuResource: name, topsv1.LabelComponent: "exporter"}
	ds.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1",
		topsv1.AnnotationUpgradePlan: name, topsv1.AnnotationRevision: "global-2"}
	ds.Spec.Template.Spec.NodeSelector = map[string]string{"global": "node"} // other tests have left nodes
	check(t, admin.Create(t.Context(), ds))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), ds)) })
	for _, r := range fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash) {
		r.UID, r.Data.Raw = "", []byte(`{}`)
		check(t, admin.Create(t.Context(), r))
	}
	ds.Status.ObservedGeneration = ds.Generation
	check(t, admin.Status().Update(t.Context(), ds))
	addNode(t, s, "global-node")
	node := &corev1.Node{}
	check(t, admin.Get(t.Context(), client.ObjectKey{Name: "global-node"}, node))
	node.Labels = ds.Spec.Template.Spec.NodeSelector
	check(t, admin.Update(t.Context(), node))
	story := &globalStory{t: t, admin: admin, ds: ds, pod: outdatedPod(t, admin, ds, "global-node")}
	story.plan = &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.UpgradePlanSpec{GcuResource: name, Revision: "global-2",
		Wanted:  &runtime.RawExtension{Raw: []byte(`{}`)},
		Jobs:    []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"global-node"}}}}},
		Before:  []topsv1.GlobalTask{{Task: "database_backup", CronJob: "backup"}, {Task: "images_check", CronJob: "check"}},
		After:   []topsv1.GlobalTask{{Task: "cluster_verify", CronJob: "verify"}}}}
	check(t, admin.Create(t.Context(), story.plan))
	return story
}

// template creates the CronJob of a task.
func (g *globalStory) template(name, account string, labels map[string]string) *batchv1.CronJob {
	g.t.Helper()
	suspend, ttl := true, int32(0)
	cron := &batchv1.CronJob{ObjectMeta: inOperators(name), Spec: batchv1.CronJobSpec{Schedule: "@yearly", Suspend: &suspend}}
	cron.Labels = labels
	cron.Spec.JobTemplate.Spec.TTLSecondsAfterFinished = &ttl
	cron.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: account, RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "c", Image: "registry.example/" + name + ":1"}}}
	check(g.t, g.admin.Create(g.t.Context(), cron))
	g.t.Cleanup(func() { check(g.t, client.IgnoreNotFound(g.admin.Delete(context.Background(), cron))) })
	return cron
}

// jobs returns the Jobs of the plan, by the names of their templates.
func (g *globalStory) jobs(ctx context.Context) map[string]*batchv1.Job {
	var list batchv1.JobList
	check(g.t, g.admin.List(ctx, &list, client.InNamespace(apiserver.Namespace)))
	jobs := map[string]*batchv1.Job{}
	for i := range list.Items {
		if job := &list.Items[i]; metav1.IsControlledBy(job, g.plan) {
			jobs[strings.TrimPrefix(job.Spec.Template.Spec.ServiceAccountName, "gcu-task-")] = job
		}
	}
	return jobs
}

// until waits for something of the story.
func (g *globalStory) until(what string, is func(ctx context.Context) bool) {
	g.t.Helper()
	err := wait.PollUntilContextTimeout(g.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) { return is(ctx), nil })
	if err != nil {
		g.t.Fatalf("%v: %s; the rollout says %q", err, what, g.says())
	}
}

// says returns why the rollout does not go on: reason and message.
func (g *globalStory) says() string {
	var dro topsv1.DaemonRollout
	check(g.t, client.IgnoreNotFound(g.admin.Get(g.t.Context(), client.ObjectKeyFromObject(g.ds), &dro)))
	return fixture.Words(dro.Status)[topsv1.RolloutProgressing] + ": " + fixture.MessageOf(dro.Status, topsv1.RolloutProgressing)
}

func (g *globalStory) untilItSays(parts ...string) {
	g.t.Helper()
	g.until("it says "+strings.Join(parts, ", "), func(context.Context) bool {
		said := g.says()
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(said, part) })
	})
}

// ends waits for the Job of a task, and ends it as the controller of Jobs does, step by step.
func (g *globalStory) ends(name string, expects, ends batchv1.JobConditionType) *batchv1.Job {
	g.t.Helper()
	var job *batchv1.Job
	g.until("there is a Job of "+name, func(ctx context.Context) bool { job = g.jobs(ctx)[name]; return job != nil })
	now := metav1.Now()
	job.Status.StartTime = &now
	for _, kind := range []batchv1.JobConditionType{expects, ends} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, Message: "it ended"})
		if ends == batchv1.JobComplete && kind == ends {
			job.Status.CompletionTime = &now
		}
		err := g.admin.Status().Update(g.t.Context(), job)
		if kind == batchv1.JobSuccessCriteriaMet && apierrors.IsInvalid(err) { // before Kubernetes 1.32
			job.Status.Conditions, err = nil, nil
		}
		check(g.t, err)
	}
	return job
}

func (g *globalStory) podIsKept() {
	g.t.Helper()
	check(g.t, g.admin.Get(g.t.Context(), client.ObjectKeyFromObject(g.pod), g.pod))
	if g.pod.DeletionTimestamp != nil {
		g.t.Fatal("the pod is deleted before the tasks that come first are done")
	}
}

// TestAPlanRunsOnlyWhatWasMadeForPlans: with the rights of the manager and under the shipped policies, a plan runs no
// template that is not labeled for it, and none with the ServiceAccount of the manager; what it runs is in order,
// holds the nodes, and runs again when a Job that failed is deleted.
//
// Contract 91.
func TestAPlanRunsOnlyWhatWasMadeForPlans(t *testing.T) {
	s := cluster(t)
	g := newGlobalStory(t, s)
	labeled := map[string]string{topsv1.LabelGlobalTask: "true"}
	backup := g.template("backup", "gcu-operator", nil)
	g.template("check", "gcu-task-check", labeled)
	g.template("verify", "gcu-task-verify", labeled)
	startUpdater(t, s)
	g.untilItSays("GlobalTaskFailed", "does not have the label "+topsv1.LabelGlobalTask)
	backup.Labels = labeled
	check(t, g.admin.Update(t.Context(), backup))
	g.wake()
	g.untilItSays("GlobalTaskFailed", `has ServiceAccount "gcu-operator"`)
	if made := g.jobs(t.Context()); len(made) > 0 {
		t.Fatalf("Jobs %v are made", made)
	}
	backup.Spec.JobTemplate.Spec.Template.Spec.ServiceAccountName = "gcu-task-backup"
	backup.Spec.JobTemplate.Spec.Template.Spec.DeprecatedServiceAccount = ""
	check(t, g.admin.Update(t.Context(), backup))
	g.wake()

	failed := g.ends("backup", batchv1.JobFailureTarget, batchv1.JobFailed)
	g.untilItSays("GlobalTaskFailed", "kubectl delete job -n kube-system "+failed.Name)
	g.podIsKept()
	if made := g.jobs(t.Context()); len(made) != 1 || failed.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("Jobs %v, kept for %v", made, failed.Spec.TTLSecondsAfterFinished)
	}
	check(t, g.admin.Delete(t.Context(), failed, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	g.until("the Job is made again", func(ctx context.Context) bool {
		job := g.jobs(ctx)["backup"]
		return job != nil && job.UID != failed.UID
	})
	g.ends("backup", batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	g.until("there is a Job of check", func(ctx context.Context) bool { return g.jobs(ctx)["check"] != nil })
	g.podIsKept()
	g.ends("check", batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	g.until("the pod is deleted", func(ctx context.Context) bool {
		err := g.admin.Get(ctx, client.ObjectKeyFromObject(g.pod), g.pod)
		return apierrors.IsNotFound(err) || err == nil && g.pod.DeletionTimestamp != nil
	})
	if g.jobs(t.Context())["verify"] != nil {
		t.Error("the cluster is verified before the node is done")
	}
	g.replacePod()
	g.ends("verify", batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	g.untilItSays("Complete")
	g.until("the plan has the results", func(ctx context.Context) bool {
		check(t, g.admin.Get(ctx, client.ObjectKeyFromObject(g.plan), g.plan))
		notDone := func(n topsv1.GlobalTaskNote) bool { return n.Result != "done" }
		return len(g.plan.Status.Tasks) == 3 && !slices.ContainsFunc(g.plan.Status.Tasks, notDone)
	})
}

// wake causes a pass: the manager looks at CronJobs every half minute.
func (g *globalStory) wake() {
	g.t.Helper()
	check(g.t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the updater writes to it, too
		if err := g.admin.Get(g.t.Context(), client.ObjectKeyFromObject(g.plan), g.plan); err != nil {
			return err
		}
		g.plan.Spec.Jobs[0].Seconds++
		return g.admin.Update(g.t.Context(), g.plan)
	}))
}

// replacePod plays the kubelet and the DaemonSet controller.
func (g *globalStory) replacePod() {
	g.t.Helper()
	now := int64(0)
	check(g.t, client.IgnoreNotFound(g.admin.Delete(g.t.Context(), g.pod, &client.DeleteOptions{GracePeriodSeconds: &now})))
	pod := fixture.PodOn(g.ds, "global-node", fixture.NewHash)
	pod.UID, pod.Name = "", g.pod.Name+"-new"
	pod.Spec.Containers = g.ds.Spec.Template.Spec.Containers
	check(g.t, apiserver.CreateWithStatus(g.t.Context(), g.admin, pod))
}

// TestTheManagerRunsGlobalTasksWithTheirAccountsOnly: the shipped policy bounds the manager itself, so that somebody
// with its token runs nothing with the rights of others.
func TestTheManagerRunsGlobalTasksWithTheirAccountsOnly(t *testing.T) {
	s := cluster(t)
	manager := s.Client(t, apiserver.Operator)
	job := func(namespace, account, kind string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "upg-server-",
			OwnerReferences: fixture.ControlledBy(topsv1.GroupVersion.String(), kind, "mission", "uid-mission")}}
		j.OwnerReferences[0].BlockOwnerDeletion = nil
		j.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: account, RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		return j
	}
	create := func(j *batchv1.Job) func() error {
		return func() error { return manager.Create(t.Context(), j.DeepCopy(), client.DryRunAll) }
	}
	allowed(t, "with an account for tasks", create(job(apiserver.Namespace, "gcu-task-backup", "UpgradePlan")))
	forbidden(t, "with the account of a controller", create(job(apiserver.Namespace, "clusterrole-aggregation-controller", "UpgradePlan")))
	forbidden(t, "with its own account", create(job(apiserver.Namespace, "gcu-operator", "UpgradePlan")))
	forbidden(t, "in another namespace", create(job("default", "gcu-task-backup", "UpgradePlan")))
	forbidden(t, "for a gr", create(job(apiserver.Namespace, "gcu-task-backup", "GcuResource")))
	forbidden(t, "for a rollout", create(job(apiserver.Namespace, "gcu-task-backup", "DaemonRollout")))
}
