package daemonupdater

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/reporter"
	"github.com/topsops/gcu-operator/test/fixture"
)

// withGlobalTasks is a cluster whose gr follows a plan of node b, the only outdated one: two tasks before it, and
// one after it.
func withGlobalTasks(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, followsPlan)
	for _, node := range []string{"a", "c"} {
		pod := fixture.PodOn(c.driver, node, fixture.NewHash)
		if err := c.api.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		c.create(pod)
	}
	c.create(&topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission", UID: "uid-mission", Generation: 1}, Spec: topsv1.UpgradePlanSpec{GcuResource: "fleet", Revision: "fleet-2",
		Jobs:    []topsv1.PlannedJob{{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "one", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"b"}}}}},
		Before:  []topsv1.GlobalTask{{Task: "database_backup", CronJob: "backup"}, {Task: "images_list", CronJob: "images"}},
		After:   []topsv1.GlobalTask{{Task: "cluster_check", CronJob: "check"}}}})
	for _, name := range []string{"backup", "images", "check"} {
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: name, Labels: map[string]string{topsv1.LabelGlobalTask: "true"}}}
		cron.Spec.JobTemplate.Spec.Template.Spec.ServiceAccountName = "gcu-task-" + name
		c.create(cron)
	}
	return c
}

// pass makes a pass, late enough for a status, and returns why the rollout does not go on.
func (c *cluster) pass() string {
	c.t.Helper()
	c.now = c.now.Add(reporter.PlanInterval)
	c.mustReconcile()
	_, reason, _ := strings.Cut(fixture.Words(c.stored().Status)[topsv1.RolloutProgressing], "/")
	return reason
}

// taskJobs returns the Jobs that were made, by the names of their CronJobs.
func (c *cluster) taskJobs() map[string]*batchv1.Job {
	c.t.Helper()
	var list batchv1.JobList
	if err := c.api.List(c.t.Context(), &list, client.InNamespace("gcu-system")); err != nil {
		c.t.Fatal(err)
	}
	jobs := map[string]*batchv1.Job{}
	for i := range list.Items {
		jobs[strings.TrimPrefix(list.Items[i].Spec.Template.Spec.ServiceAccountName, "gcu-task-")] = &list.Items[i]
	}
	return jobs
}

// ends ends the Job of a task.
func (c *cluster) ends(name string, as batchv1.JobConditionType) {
	c.t.Helper()
	job := c.taskJobs()[name]
	if job == nil {
		c.t.Fatalf("there is no Job of %s", name)
	}
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: as, Status: corev1.ConditionTrue, Message: "it ended."})
	if err := c.api.Status().Update(c.t.Context(), job); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) deleteJob(name string) {
	c.t.Helper()
	if err := c.api.Delete(c.t.Context(), c.taskJobs()[name]); err != nil {
		c.t.Fatal(err)
	}
}

// wantTasks compares the results of tasks in the status of the plan, and which Jobs there are.
func (c *cluster) wantTasks(results string, jobs ...string) {
	c.t.Helper()
	var plan topsv1.UpgradePlan
	if err := c.api.Get(c.t.Context(), client.ObjectKey{Name: "mission"}, &plan); err != nil {
		c.t.Fatal(err)
	}
	var got []string
	for _, n := range plan.Status.Tasks {
		got = append(got, n.Result)
	}
	if diff := cmp.Diff(results, strings.Join(got, " ")); diff != "" {
		c.t.Errorf("results (-want +got):\n%s", diff)
	}
	there := c.taskJobs()
	for _, name := range jobs {
		if there[name] == nil {
			c.t.Errorf("there is no Job of %s", name)
		}
	}
	if len(there) != len(jobs) {
		c.t.Errorf("there are Jobs %v, want %v", there, jobs)
	}
}

// Until the cache shows the new ControllerRevision, every node of the plan seems to be done.
func TestTasksAfterTheNodesWaitUntilTheTargetIsConfirmed(t *testing.T) {
	c := withGlobalTasks(t)
	var plan topsv1.UpgradePlan
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &plan); err != nil {
		t.Fatal(err)
	}
	plan.Spec.Before = nil
	c.update(&plan)
	c.completeAtOld()
	c.staleRevision = "driver-" + fixture.NewHash
	if after := c.mustReconcile(); after != retryStaleCache || len(c.taskJobs()) != 0 {
		t.Errorf("decides again after %s, want %s; Jobs %v, want none", after, retryStaleCache, c.taskJobs())
	}
}

// Contract 91 and 95.
func TestAPlanDoesItsTasksBeforeAndAfterTheNodes(t *testing.T) {
	c := withGlobalTasks(t)
	if got := c.pass(); got != "AwaitingGlobalTask" {
		t.Errorf("it waits for %s", got)
	}
	c.wantTasks("undo undo undo", "backup")
	c.reconciler.groupStates = newGroupStates(nil) // the manager dies, and another one takes over
	c.pass()
	c.wantTasks("undo undo undo", "backup")
	if got := c.reconciler.watches().OfJob(t.Context(), c.taskJobs()["backup"]); !cmp.Equal(got, []observed.Group{observed.GroupOf(c.driver)}) {
		t.Errorf("the Job wakes %v", got)
	}

	c.ends("backup", batchv1.JobFailed)
	if got := c.pass(); got != "GlobalTaskFailed" {
		t.Errorf("it waits for %s", got)
	}
	if words := fixture.Words(c.stored().Status); words[topsv1.ConditionStalled] != "True/GlobalTaskFailed" || words[topsv1.RolloutComplete] != "False/Incomplete" {
		t.Errorf("conditions %v", words)
	}
	c.wantTasks("fail undo undo", "backup")
	c.deleteJob("backup")
	c.pass()
	c.ends("backup", batchv1.JobComplete)
	if got := c.pass(); got != "AwaitingGlobalTask" {
		t.Errorf("it waits for %s", got)
	}
	c.wantTasks("done undo undo", "backup", "images")
	c.wantDeletions()

	c.ends("images", batchv1.JobComplete)
	c.onDelete = func(string) error { // in its place, one of a later version
		renewed := fixture.PodOn(c.driver, "b", fixture.NewHash)
		renewed.UID = "uid-again"
		return c.api.Update(t.Context(), renewed)
	}
	c.pass()
	c.wantDeletions("driver-b")
	c.wantTasks("done done undo", "backup", "images")
	c.deleteJob("backup")
	c.deleteJob("images") // what is recorded is not done again
	if got := c.pass(); got != "AwaitingGlobalTask" {
		t.Errorf("it waits for %s", got)
	}
	c.wantTasks("done done undo", "check")
	c.ends("check", batchv1.JobFailed)
	c.pass()
	if words := fixture.Words(c.stored().Status); words[topsv1.ConditionStalled] != "True/GlobalTaskFailed" || words[topsv1.RolloutComplete] != "False/Incomplete" {
		t.Errorf("conditions %v", words)
	}
	c.deleteJob("check")
	c.pass()
	c.ends("check", batchv1.JobComplete)
	if got := c.pass(); got != "Complete" {
		t.Errorf("it waits for %s", got)
	}
	c.wantTasks("done done done", "check")
	c.wantDeletions("driver-b")
}

// Contract 91.
func TestTasksAfterTheNodesWaitForThoseBeforeThem(t *testing.T) {
	c := withGlobalTasks(t)
	if err := c.api.Delete(t.Context(), fixture.PodOn(c.driver, "b", fixture.OldHash)); err != nil {
		t.Fatal(err)
	}
	c.create(fixture.PodOn(c.driver, "b", fixture.NewHash))
	for range 2 {
		if got := c.pass(); got != "AwaitingGlobalTask" {
			t.Errorf("it waits for %s", got)
		}
	}
	c.wantTasks("undo undo undo", "backup")
	if words := fixture.Words(c.stored().Status); words[topsv1.RolloutComplete] != "False/Incomplete" || words[topsv1.RolloutAccepted] != "True/SettingsAccepted" {
		t.Errorf("conditions %v", words)
	}
	c.ends("backup", batchv1.JobFailed)
	c.pass()
	if words := fixture.Words(c.stored().Status); words[topsv1.RolloutAccepted] != "False/GlobalTaskFailed" {
		t.Errorf("conditions %v", words)
	}
}

// A node in flight cannot wait until the API server creates Jobs again.
func TestANodeInFlightGoesOnWhenATaskCannotBeReadOrCreated(t *testing.T) {
	faults := map[string]func(*cluster){
		"created": func(c *cluster) { c.onCreate = apierrors.NewInternalError(errors.New("failed calling webhook")) },
		"read": func(c *cluster) {
			c.live(interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
				if _, is := object.(*batchv1.Job); is {
					return apierrors.NewTooManyRequests("slow down", 1)
				}
				return w.Get(ctx, key, object, opts...)
			}})
		},
	}
	edits := map[string]func(*topsv1.UpgradePlanSpec){
		"before the nodes": func(s *topsv1.UpgradePlanSpec) {
			s.Before = append(s.Before, topsv1.GlobalTask{Task: "nodes_list", CronJob: "images"})
		},
		"after the nodes, of which it is none": func(s *topsv1.UpgradePlanSpec) { s.Batches[0].Jobs[0].Nodes = []string{"a"} },
	}
	for name, fault := range faults {
		for where, edit := range edits {
			t.Run("a task "+where+" cannot be "+name, func(t *testing.T) {
				c := withGlobalTasks(t)
				pass := func() error {
					c.now = c.now.Add(reporter.PlanInterval)
					_, err := c.reconcile()
					return err
				}
				c.pass()
				c.ends("backup", batchv1.JobComplete)
				c.pass()
				c.ends("images", batchv1.JobComplete)
				c.pass()
				c.wantDeletions("driver-b")
				var plan topsv1.UpgradePlan
				if err := c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &plan); err != nil {
					t.Fatal(err)
				}
				edit(&plan.Spec)
				plan.Generation++
				c.update(&plan)
				fault(c)
				for range 70 { // as often as retries would be
					if err := pass(); err == nil {
						t.Fatal("the pass reports no error")
					}
				}
				s := c.stored().Status
				if len(s.Failed) != 1 || s.Failed[0].Node != "b" {
					t.Errorf("the node without a pod has not failed after a quarter of an hour: %+v", s.Failed)
				}
				if why := fixture.MessageOf(s, topsv1.RolloutProgressing); !strings.Contains(why, map[string]string{"created": "failed calling webhook", "read": "slow down"}[name]) {
					t.Errorf("Progressing says %q", why)
				}
				c.wantTasks("done done undo", "backup", "images")
			})
		}
	}
}

func TestATaskOfAPlanThatCannotStartHoldsTheNodes(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "job", nil)
	for _, tt := range []struct {
		name   string
		edit   func(c *cluster)
		reason string
		says   string
	}{
		{"paused", func(c *cluster) {
			fixture.Annotate(c.driver, topsv1.AnnotationPaused, "true")
			c.update(c.driver)
		}, "AwaitingGlobalTask", "does not start while the rollout is paused"},
		{"without its CronJob", func(c *cluster) {
			if err := c.api.Delete(c.t.Context(), &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "backup"}}); err != nil {
				c.t.Fatal(err)
			}
		}, "GlobalTaskFailed", "there is no CronJob gcu-system/backup"},
		{"refused by the API server", func(c *cluster) { c.onCreate = denied }, "GlobalTaskFailed", "is forbidden"},
		{"denied as if its Job existed", func(c *cluster) { c.onCreate = deniedAs(http.StatusConflict, metav1.StatusReasonAlreadyExists) }, "GlobalTaskFailed", "not on Fridays"},
		{"denied as if the manager were not known yet", func(c *cluster) { c.onCreate = deniedAs(http.StatusUnauthorized, metav1.StatusReasonUnauthorized) }, "GlobalTaskFailed", "not on Fridays"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := withGlobalTasks(t)
			c.mustReconcile() // makes the DaemonRollout
			for name := range c.taskJobs() {
				c.deleteJob(name)
			}
			tt.edit(c)
			if got := c.pass(); got != tt.reason {
				t.Errorf("it waits for %s, want %s", got, tt.reason)
			}
			if said := fixture.MessageOf(c.stored().Status, topsv1.RolloutProgressing); !strings.Contains(said, tt.says) || !strings.Contains(said, "upg-server_database_backup") {
				t.Errorf("it says %q", said)
			}
			c.wantDeletions()
			if jobs := c.taskJobs(); len(jobs) > 0 {
				t.Errorf("Jobs %v are made", jobs)
			}
		})
	}
}

// A quota that changes at that moment, or an API server that has just started, refuses no task.
func TestAJobThatCannotBeCreatedNowIsCreatedLater(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for _, passing := range []error{apierrors.NewConflict(jobs, "job", errors.New("the quota changed")), apierrors.NewUnauthorized("not yet")} {
		c := withGlobalTasks(t)
		c.mustReconcile() // makes the DaemonRollout
		for name := range c.taskJobs() {
			c.deleteJob(name)
		}
		c.onCreate = passing
		c.now = c.now.Add(reporter.PlanInterval)
		if after, err := c.reconcile(); err == nil && after == 0 {
			t.Errorf("%v: nothing is tried again", passing)
		}
		if said := fixture.MessageOf(c.stored().Status, topsv1.RolloutProgressing); strings.Contains(said, "failed") || strings.Contains(said, "cannot start") {
			t.Errorf("%v: it says %q", passing, said)
		}
		c.onCreate = nil
		if c.mustReconcile(); len(c.taskJobs()) != 1 {
			t.Errorf("%v: Jobs %v are made", passing, c.taskJobs())
		}
	}
}

// Nodes whose events came with a pass that could not read a Job are read in the next one.
func TestNoChangeOfANodeIsLostWhenAJobCannotBeRead(t *testing.T) {
	c := withGlobalTasks(t)
	c.pass() // knows the nodes
	c.live(interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
		if _, is := object.(*batchv1.Job); is {
			return broken500
		}
		return w.Get(ctx, key, object, opts...)
	}})
	if err := c.api.Delete(t.Context(), fixture.Node("c")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.reconcile(); err == nil {
		t.Fatal("the Job was read")
	}
	c.reconciler.Live = c.api
	c.now = c.now.Add(reporter.PlanInterval)
	if _, err := c.reconciler.Reconcile(t.Context(), observed.GroupOf(c.driver)); err != nil { // no event comes again
		t.Fatal(err)
	}
	if total := c.stored().Status.Total; total != 2 {
		t.Errorf("%d nodes, want those that are left", total)
	}
}

func TestTheTasksAfterTheNodesAwaitANodeThatComesBack(t *testing.T) {
	c := withGlobalTasks(t)
	c.pass()
	c.ends("backup", batchv1.JobComplete)
	c.pass()
	for _, object := range []client.Object{fixture.PodOn(c.driver, "b", fixture.OldHash), fixture.Node("b")} {
		if err := c.api.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	c.ends("images", batchv1.JobComplete)
	c.reconciler.groupStates = newGroupStates(nil)
	c.wantHeldAfterwards("AwaitingGlobalTask", "no node of UpgradePlan mission that is done is Ready")
}

// wantHeldAfterwards makes a pass, and checks that the tasks after the nodes hold the rollout and do not run.
func (c *cluster) wantHeldAfterwards(reason, says string) {
	c.t.Helper()
	if got := c.pass(); got != reason {
		c.t.Errorf("it waits for %q, want %q", got, reason)
	}
	status := c.stored().Status
	if said := fixture.MessageOf(status, topsv1.RolloutProgressing); !strings.Contains(said, "waiting for upg-server_cluster_check") || !strings.Contains(said, says) {
		c.t.Errorf("it says %q, want %q", said, says)
	}
	if words := fixture.Words(status); words[topsv1.RolloutComplete] != "False/Incomplete" || status.LastKnownGood != nil {
		c.t.Errorf("the rollout is complete: %v, last known good %+v", words, status.LastKnownGood)
	}
	if c.taskJobs()["check"] != nil {
		c.t.Error("the task after the nodes runs")
	}
}

func TestTheTasksAfterTheNodesAwaitTheApprovalOfABatchThatIsOffline(t *testing.T) {
	c := withGlobalTasks(t)
	var plan topsv1.UpgradePlan
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "mission"}, &plan); err != nil {
		t.Fatal(err)
	}
	plan.Spec.Before = nil
	plan.Spec.Batches[0].Jobs[0].Nodes = []string{"a"}
	plan.Spec.Batches = append(plan.Spec.Batches, topsv1.PlannedBatch{Name: "offline", Approval: topsv1.ApprovalManual,
		Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"b"}}}})
	c.update(&plan)
	var b corev1.Node
	if err := c.api.Get(t.Context(), client.ObjectKey{Name: "b"}, &b); err != nil {
		t.Fatal(err)
	}
	if err := c.api.Status().Update(t.Context(), fixture.Offline(&b)); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Hour)
	c.pass()
	c.wantHeldAfterwards("AwaitingApproval", "batch offline awaits approval as ")
	dro := c.stored()
	_, approval, _ := strings.Cut(fixture.MessageOf(dro.Status, topsv1.RolloutProgressing), " awaits approval as ")
	approval, _, _ = strings.Cut(approval, ";")
	metav1.SetMetaDataAnnotation(&dro.ObjectMeta, topsv1.AnnotationApprovedWaves, approval)
	c.update(dro)
	c.pass()
	c.ends("check", batchv1.JobComplete)
	if got := c.pass(); got != "CompleteExceptOffline" {
		t.Errorf("it waits for %q", got)
	}
}
