package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// planOf writes the plan of an upgrade.
func (s *site) planOf(file string) *topsv1.UpgradePlan {
	s.t.Helper()
	plan := &topsv1.UpgradePlan{}
	if err := yaml.UnmarshalStrict([]byte(s.says(s.gcuWith(s.t.Context(), file, "plan", "-f", "-", "-o", "yaml"), exitOK).out), plan); err != nil {
		s.t.Fatal(err)
	}
	return plan
}

// fileOf returns a file with a plan.
func (s *site) fileOf(plan *topsv1.UpgradePlan) string {
	s.t.Helper()
	text, err := yaml.Marshal(plan)
	file := filepath.Join(s.t.TempDir(), "plan.yaml")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return file
}

// cronJob creates a template of a global task.
func (s *site) cronJob(name, account string) *batchv1.CronJob {
	s.t.Helper()
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: name}, Spec: batchv1.CronJobSpec{Schedule: "@yearly"}}
	cron.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: account, RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	s.create(cron)
	return cron
}

// annotate writes an annotation of a gr, "" removes it.
func (s *site) annotate(gr *topsv1.GcuResource, key, value string) {
	s.t.Helper()
	s.read(gr)
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, key, value)
	if value == "" {
		delete(gr.Annotations, key)
	}
	if err := s.Update(s.t.Context(), gr); err != nil {
		s.t.Fatal(err)
	}
}

func TestAPlanIsWrittenCheckedAndRun(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("mission")
	spec := grFile("mission", "1.1")
	plan := s.planOf(spec)
	if b := plan.Spec.Batches; len(b) != 3 || b[0].Jobs[0].Nodes[0] != "mission-1" || plan.Spec.GcuResource != "mission" || !strings.Contains(string(plan.Spec.Wanted.Raw), `"1.1"`) {
		t.Fatalf("the plan is %+v", plan.Spec)
	}
	file := s.fileOf(plan)
	s.says(s.gcu("plan", "--check", file), exitOK, "is a plan for gr mission that can be run", "batches: 3, nodes: 3, at most at once: 1", "evict node")
	s.says(s.gcu("upgrade", "--plan", file, "--nodes", "mission-1"), exitUsage, "--plan excludes")
	for _, flags := range [][]string{{"-o", "json"}, {"--nodes", "mission-1"}, {"--approved"}} {
		s.says(s.gcu(append([]string{"plan", "--check", file}, flags...)...), exitUsage, "--check excludes")
	}
	s.says(s.gcu("upgrade", "mission", "--step", "--all"), exitUsage, "--step is for --plan")
	s.says(s.gcu("upgrade", "other", "--plan", file), exitRefused, "is for gr mission, not other")

	broken := plan.DeepCopy()
	broken.Spec.Jobs[0].Stages = broken.Spec.Jobs[0].Stages[4:]
	s.says(s.gcu("upgrade", "--plan", s.fileOf(broken)), exitRefused, "node_evict may not be left out: the node must be emptied before")
	moved := plan.DeepCopy()
	moved.Spec.Batches[0].Jobs[0].Nodes[0] = "mission-9"
	s.says(s.gcu("plan", "--check", s.fileOf(moved)), exitRefused, "the plan no longer matches the cluster", "node mission-9 does not exist")
	edited := plan.DeepCopy()
	edited.Spec.Wanted.Raw = []byte(strings.Replace(string(edited.Spec.Wanted.Raw), "1.1", "1.2", 1))
	s.says(s.gcu("plan", "--check", s.fileOf(edited)), exitRefused, "write another plan")
	capital := plan.DeepCopy() // the API server knows which names may be stored
	capital.Spec.Batches[0].Name = "Canary"
	s.says(s.gcu("plan", "--check", s.fileOf(capital)), exitFailed, "spec.batches[0].name", "should match")
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(plan), &topsv1.UpgradePlan{}); !apierrors.IsNotFound(err) {
		t.Errorf("a plan that is only checked is stored: %v", err)
	}
	stale := plan.DeepCopy()
	stale.Spec.From = "mission-0"
	s.says(s.gcu("plan", "--check", s.fileOf(stale)), exitRefused, "was changed since the plan was written")
	manual := plan.DeepCopy()
	manual.Spec.Batches[0].Approval = topsv1.ApprovalManual
	s.annotate(gr, topsv1.AnnotationUpdateStrategy, "OTA")
	s.says(s.gcu("plan", "--check", s.fileOf(manual)), exitRefused, "gr mission has strategy OTA, under which each node waits for its own request")
	s.annotate(gr, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	global := plan.DeepCopy()
	global.Spec.Before = []topsv1.GlobalTask{{Task: "database_backup", CronJob: "mission-backup"}}
	s.says(s.gcu("upgrade", "--plan", s.fileOf(global)), exitRefused, "there is no CronJob kube-system/mission-backup: create it, or remove the task from the plan")
	template := s.cronJob("mission-backup", "gcu-task-backup")
	s.says(s.gcu("plan", "--check", s.fileOf(global)), exitRefused, "does not have the label topsops.enflame.com/global-task=true")
	template.Labels = map[string]string{topsv1.LabelGlobalTask: "true"}
	if err := s.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("plan", "--check", s.fileOf(global)), exitOK, "can be run", "before the nodes: upg-server_database_backup, from CronJob mission-backup")
	if s.read(gr); gr.Annotations[topsv1.AnnotationUpgradePlan] != "" {
		t.Error("a plan that is refused is followed")
	}

	// What is refused after the plan was checked writes no plan either.
	plan.Spec.Batches = plan.Spec.Batches[:2]
	s.annotate(gr, topsv1.AnnotationRollbackTo, "mission-0")
	s.says(s.gcu("upgrade", "--plan", s.fileOf(plan)), exitRefused, "a rollback of gr mission to mission-0 has already been requested")
	if err := s.Get(t.Context(), client.ObjectKey{Name: plan.Name}, &topsv1.UpgradePlan{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refused upgrade wrote its plan: %v", err)
	}
	s.annotate(gr, topsv1.AnnotationRollbackTo, "")

	s.says(s.gcu("upgrade", "--plan", s.fileOf(plan), "--step"), exitOK, "UpgradePlan "+plan.Name+" is written: 2 nodes, batches: 2", "driver.version: 1.0 -> 1.1",
		"following UpgradePlan "+plan.Name, "each batch waits for kubectl gcu approve mission BATCH")
	stored := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: plan.Name}}
	s.read(stored)
	if s.read(gr); gr.Annotations[topsv1.AnnotationUpgradePlan] != plan.Name || gr.Spec.Driver.Version != "1.1" ||
		len(stored.OwnerReferences) != 1 || stored.OwnerReferences[0].UID != gr.UID || stored.Spec.Batches[1].Approval != topsv1.ApprovalManual {
		t.Errorf("the gr has %v, the plan %+v of %v", gr.Annotations, stored.Spec.Batches, stored.OwnerReferences)
	}
	s.says(s.gcu("upgrade", "--plan", s.fileOf(plan)), exitOK, "already has this spec") // edited in between

	now := metav1.Now()
	s.read(stored)
	stored.Status = topsv1.UpgradePlanStatus{ObservedGeneration: stored.Generation, Time: &now, Fail: 1, Undo: 1, Undone: []string{"mission-2"},
		Failed: []topsv1.FailedNode{{Node: "mission-1", Task: "mission-1_driver_verify", Message: "another version is loaded"}}}
	if err := s.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("history", "mission", "--plan"), exitOK, plan.Name, "in force", "mission-1_driver_verify failed: another version is loaded", "undo: mission-2")
	var told struct{ Items []planfile.Result }
	if err := json.Unmarshal([]byte(s.says(s.gcu("history", "mission", "--plan", "-o", "json"), exitOK).out), &told); err != nil {
		t.Fatal(err)
	}
	if n := told.Items[0].Nodes; len(n) != 2 || n[0].Result != "fail" || len(n[0].Tasks.Fail) != 1 || len(n[0].Tasks.Done) == 0 || len(n[0].Tasks.Undo) == 0 ||
		n[1].Result != "undo" || len(n[1].Tasks.Done) != 0 {
		t.Errorf("the result is %+v", n)
	}

	s.says(s.gcu("upgrade", "mission", "--all"), exitOK, "no longer following UpgradePlan "+plan.Name)
	s.says(s.gcu("upgrade", "--plan", s.fileOf(plan)), exitRefused, "has ended, and keeps its result")
	if s.read(gr); gr.Annotations[topsv1.AnnotationUpgradePlan] != "" {
		t.Error("the plan is still followed")
	}
	if err := s.Delete(t.Context(), stored); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// cutOff is an API server that can be reached until one of the writes of our kinds: it is lost, or its answer is.
type cutOff struct {
	next http.Handler
	// last is the write, sent is true if it gets through.
	last int
	sent bool
	// before is called before each write; nil does nothing.
	before func(write int)

	mutex  sync.Mutex
	writes int
}

// ServeHTTP implements http.Handler.
func (c *cutOff) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	writes := r.Method != http.MethodGet && strings.Contains(r.URL.Path, topsv1.GroupVersion.Group) && !r.URL.Query().Has("dryRun")
	c.mutex.Lock()
	if writes {
		c.writes++
	}
	dead, at := c.writes > c.last, writes && c.writes == c.last
	number := c.writes
	c.mutex.Unlock()
	if writes && c.before != nil {
		c.before(number)
	}
	if at && c.sent {
		c.next.ServeHTTP(httptest.NewRecorder(), r)
	}
	if dead || at {
		panic(http.ErrAbortHandler)
	}
	c.next.ServeHTTP(w, r)
}

// through returns the plugin behind a cutOff.
func (s *site) through(c *cutOff) *site {
	s.t.Helper()
	transport, err := rest.TransportFor(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	to, err := url.Parse(s.config.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	c.next = &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	proxy := httptest.NewUnstartedServer(c)
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0)
	proxy.Start()
	s.t.Cleanup(proxy.Close)
	other := *s
	other.kubeconfig = apiserver.KubeconfigOf(s.t, &rest.Config{Host: proxy.URL})
	return &other
}

// A status of before the plan was edited ends no wait: here of a task that failed, and was removed from the plan.
func TestAWaitForAPlanDoesNotEndByTheStatusOfBefore(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("edited")
	plan := s.planOf(grFile("edited", "1.1"))
	s.says(s.gcu("upgrade", "--plan", s.fileOf(plan)), exitOK)
	s.read(gr)
	gr.Status.ObservedGeneration, gr.Status.Phase = gr.Generation, topsv1.PhaseRunning
	if err := s.Status().Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	s.rollout("edited", topsv1.DaemonRolloutStatus{Revision: "r", Conditions: []metav1.Condition{{Type: topsv1.RolloutProgressing, Status: metav1.ConditionFalse,
		Reason: topsv1.ReasonGlobalTaskFailed, Message: "upg-server_nodes_check: its Job failed", LastTransitionTime: metav1.Now()}}})
	plan.Spec.Batches = plan.Spec.Batches[:2]
	s.says(s.gcu("upgrade", "--plan", s.fileOf(plan), "--wait", "--timeout", "2s"), exitNotYet, "and follows UpgradePlan "+plan.Name,
		"timed out after 2s: the operator has not reported on UpgradePlan "+plan.Name+" yet")
	stored := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: plan.Name}}
	s.read(stored)
	stored.Status = topsv1.UpgradePlanStatus{ObservedGeneration: stored.Generation, Time: ptr.To(metav1.Now())}
	if err := s.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("upgrade", "--plan", s.fileOf(plan), "--wait", "--timeout", "1m"), exitNotYet, "GlobalTaskFailed: upg-server_nodes_check: its Job failed")
}

// A rollback that is requested while the changes are printed would take the new spec back.
func TestAnUpgradeDoesNotOverwriteARollbackThatWasJustRequested(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("overtaken")
	other := &cutOff{last: 99, before: func(write int) {
		if write == 1 {
			s.annotate(gr, topsv1.AnnotationRollbackTo, "overtaken-0")
		}
	}}
	s.says(s.through(other).gcuWith(t.Context(), grFile("overtaken", "1.1"), "upgrade", "-f", "-"), exitRefused, "a rollback of gr overtaken to overtaken-0 has already been requested")
	if s.read(gr); gr.Spec.Driver.Version != "1.0" {
		t.Errorf("its driver is %s", gr.Spec.Driver.Version)
	}
}

// Somebody else stores a plan of the same name after this one is stored, and before the gr follows it. The gr is changed then, so this is
// not the exit code that promises that nothing was.
func TestAPlanThatSomebodyElseWritesMeanwhileIsNotTakenForOurs(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("doubled")
	plan := s.planOf(grFile("doubled", "1.1"))
	stored := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: plan.Name}}
	other := &cutOff{last: 99, before: func(write int) {
		if write != 2 {
			return
		}
		s.read(stored)
		stored.Spec.Batches = stored.Spec.Batches[:1]
		if err := s.Update(t.Context(), stored); err != nil {
			t.Error(err)
		}
	}}
	s.says(s.through(other).gcu("upgrade", "--plan", s.fileOf(plan)), exitNotYet, "gr doubled follows UpgradePlan "+plan.Name+", but another client changed that meanwhile")
	if s.read(gr); gr.Annotations[topsv1.AnnotationUpgradePlan] != plan.Name || len(stored.Spec.Batches) != 1 {
		t.Errorf("it follows %v, %+v", gr.Annotations, stored.Spec.Batches)
	}
}

// The plugin is killed at any write: the gr follows all of the plan or nothing, and the same command completes it.
//
// Contract 96.
func TestAPlanThatWasInterruptedIsRunByTheSameCommand(t *testing.T) {
	for last := 1; last <= 2; last++ {
		for _, sent := range []bool{false, true} {
			t.Run(fmt.Sprintf("killed at write %d, which got through: %t", last, sent), func(t *testing.T) {
				s, name := newSite(t), fmt.Sprintf("interrupted-%d-%t", last, sent)
				gr := s.plannable(name)
				plan := s.planOf(grFile(name, "1.1"))
				file, cut := s.fileOf(plan), &cutOff{last: last, sent: sent}
				s.says(s.through(cut).gcu("upgrade", "--plan", file), exitFailed)
				if cut.writes < last {
					t.Fatalf("there is no write %d", last)
				}
				followed := last == 2 && sent
				if s.read(gr); (gr.Spec.Driver.Version == "1.1") != followed || (gr.Annotations[topsv1.AnnotationUpgradePlan] == plan.Name) != followed {
					t.Errorf("half of it is done: %s, %v", gr.Spec.Driver.Version, gr.Annotations)
				}
				s.says(s.gcu("upgrade", "--plan", file), exitOK, "UpgradePlan "+plan.Name+" is written")
				stored := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: plan.Name}}
				s.read(stored)
				if s.read(gr); gr.Spec.Driver.Version != "1.1" || gr.Annotations[topsv1.AnnotationUpgradePlan] != plan.Name || len(stored.Spec.Batches) != 3 {
					t.Errorf("run again: %s, %v, %+v", gr.Spec.Driver.Version, gr.Annotations, stored.Spec)
				}
				if err := s.Delete(t.Context(), stored); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
