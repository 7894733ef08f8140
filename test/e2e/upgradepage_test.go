package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// The commands of docs/upgrade.md, in the order of the page: each does what the page says of it.

// newPaged deploys a gr whose pods are replaced without operations, under a policy.
func (s *stage) newPaged(ctx context.Context, t *testing.T, name string, policy topsv1.UpgradePolicySpec) (*mission, *topsv1.GcuResource) {
	t.Helper()
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: s.name(name)}, Spec: topsv1.GcuResourceSpec{DevicePlugin: s.component(s.name(name)+"-plugin", "v1"), GFD: s.component(s.name(name), "v1")}}
	d := s.newHeavy(ctx, t, name, policy, "2/2", gr.Spec)
	s.kubectl(ctx, t, "annotate", "gr", d.name, topsv1.AnnotationMaxUnavailable+"-")
	gr.Annotations = s.underPolicy(name)
	d.reaches(ctx, "deployed", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })
	return &mission{d, filepath.Join(t.TempDir(), "gr.yaml")}, gr
}

// An operation that fails on a node is aborted, or one of its tasks is repeated: with the plugin, and without it.
func TestThePageAbortsAnOperationAndRepeatsATask(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	policy := soon()
	policy.Validation.DriverVersion, policy.Validation.DeadlineSeconds = "2.0.0", 1
	policy.Failure = &topsv1.FailurePolicy{Threshold: ptr.To(intstr.FromInt32(stageNodes))}
	d := s.newHeavy(ctx, t, "page-tasks", policy, "1/1", topsv1.GcuResourceSpec{Driver: s.component(s.name("page-tasks"), "v1")})
	c := s.pageOf(t, "docs/upgrade.md", "Drivers and toolkits: operations", map[string]string{})
	d.upgrade(ctx, "v2")
	node := d.fails(ctx)
	c.says(c.next(ctx), node, "driver_verify")
	for i := range 2 {
		c.names["NODE"] = node
		c.next(ctx)
		d.ends(ctx, node, topsv1.OperationFailed)
		node = d.fails(ctx)
		if err := s.agents.Host(node).LoadDriver("2.0.0"); err != nil {
			t.Fatal(err)
		}
		c.names["NODE"] = node
		c.next(ctx)
		d.ends(ctx, node, topsv1.OperationDone)
		if i == 0 {
			node = d.fails(ctx)
		}
	}
}

// fails waits until an operation that has failed to verify the driver holds a node, and returns the node.
func (d *drivers) fails(ctx context.Context) (node string) {
	d.t.Helper()
	d.eventually(ctx, d.t, func() error {
		for _, u := range d.upgrades(ctx, d.t) {
			op := u.Status.Operation
			if op == nil || op.Phase != topsv1.OperationFailed || !op.Held {
				continue
			}
			for _, task := range op.Tasks {
				if task.Name == u.Name+"_driver_verify" && task.State == topsv1.OperationTaskFailed {
					node = u.Name
					return nil
				}
			}
		}
		return errors.New("no operation has failed")
	})
	return node
}

// ends waits until the last operation of a node has ended in a phase, and the node is in service.
func (d *drivers) ends(ctx context.Context, node string, phase topsv1.OperationPhase) {
	d.t.Helper()
	d.eventually(ctx, d.t, func() error {
		history := d.endedOperations(ctx)[node]
		if n := len(history); n == 0 || history[n-1].Phase != phase {
			return fmt.Errorf("the operations of %s ended %+v", node, history)
		}
		if cordoned, _ := d.closed(ctx, d.t); slices.Contains(cordoned, node) {
			return fmt.Errorf("%s is cordoned", node)
		}
		return nil
	})
}

func TestThePageLimitsAnUpgradeToNodesAndComponents(t *testing.T) {
	s, ctx := enter(t)
	s.startAgents(ctx, t)
	name := s.name("page-limit")
	spec := topsv1.GcuResourceSpec{Driver: s.component(name+"-driver", "v1"), DevicePlugin: s.component(name+"-plugin", "v1"), GFD: s.component(name, "v1")}
	d := s.newHeavy(ctx, t, "page-limit", soon(), "3/3", spec)
	s.kubectl(ctx, t, "annotate", "--overwrite", "gr", name, topsv1.AnnotationMaxUnavailable+"=3")
	c := s.pageOf(t, "docs/upgrade.md", "Limit an upgrade to nodes or components", map[string]string{"my-gr": name, "node-1": s.nodes[0], "node-2": s.nodes[1]})
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind}, ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	gr.Spec.Driver.Version, gr.Spec.DevicePlugin.Version, gr.Spec.GFD.Version = "v2", "v2", "v2"
	(&mission{drivers: d}).write(filepath.Join(c.dir, "gr.yaml"), gr)
	for _, want := range [][]string{s.nodes[:2], s.nodes} {
		c.next(ctx)
		var have []string
		for node, pod := range d.podsByNode(ctx, "app.kubernetes.io/name", name+"-driver") {
			if hasTag(pod.Spec.Containers[0].Image, "v2") {
				have = append(have, node)
			}
		}
		if slices.Sort(have); !slices.Equal(have, want) {
			t.Errorf("the new driver is on %v, want %v", have, want)
		}
	}
	c.next(ctx)
	d.reaches(ctx, "complete", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })
	for _, component := range []string{name + "-plugin", name} {
		d.hasVersion(ctx, component, "v2")
	}
}

func TestThePageApprovesAWaveShowsVersionsAndRollsBack(t *testing.T) {
	s, ctx := enter(t)
	d, _ := s.newPaged(ctx, t, "paged", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(3)),
		Waves: []topsv1.Wave{{Name: "canary", Size: ptr.To(intstr.FromInt32(1))}, {Name: "main", Size: ptr.To(intstr.FromString("100%")), Approval: topsv1.ApprovalManual}}})
	d.upgradeOf(ctx, "gfd", "v2")
	var revision string
	d.reaches(ctx, "awaiting approval", func(r *topsv1.DaemonRolloutStatus) bool {
		revision = r.Revision
		return r.Updated == 1 && reasonOf(r, topsv1.RolloutProgressing) == "AwaitingApproval"
	})
	c := s.pageOf(t, "docs/upgrade.md", "Policies: waves, windows and pools", map[string]string{"enflame-gcu-resource": d.name, "192cbfe855": revision})
	c.block(ctx)
	updated := func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes }
	d.reaches(ctx, "approved", updated)

	c = s.pageOf(t, "docs/upgrade.md", "Versions that fit together", map[string]string{"my-gr": d.name})
	c.shows(ctx, "gfd            v2                6")
	c.shows(ctx, append(slices.Clone(s.nodes), "v2")...)

	s.editPolicy(ctx, t, "paged", func(spec *topsv1.UpgradePolicySpec) { spec.Waves = nil })
	c = s.pageOf(t, "docs/upgrade.md", "Rollback", map[string]string{"enflame-gcu-resource": d.name})
	if said := c.next(ctx); strings.Count(said, "gcuresource.topsops.enflame.com/"+d.name) != 2 {
		t.Errorf("the specs of the gr are\n%s", said)
	}
	c.next(ctx)
	s.shows(ctx, t, d.name, "back", func(gr *topsv1.GcuResource) bool {
		_, asked := gr.Annotations[topsv1.AnnotationRollbackTo]
		return !asked && gr.Spec.GFD.Version == "v1" && gr.Status.Phase == topsv1.PhaseRunning && action(gr, topsv1.ActionRollback) == "success/success"
	})
	d.reaches(ctx, "back", updated)
	d.hasVersion(ctx, d.name, "v1")
}

// hasVersion fails unless all pods of a component have a version.
func (d *drivers) hasVersion(ctx context.Context, component, version string) {
	d.t.Helper()
	for node, pod := range d.podsByNode(ctx, "app.kubernetes.io/name", component) {
		if image := pod.Spec.Containers[0].Image; !hasTag(image, version) {
			d.t.Errorf("%s of %s has image %s, want %s", component, node, image, version)
		}
	}
}

func TestThePageWritesAndRunsAPlanWithGlobalTasks(t *testing.T) {
	s, ctx := enter(t)
	m, gr := s.newPaged(ctx, t, "page-plan", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(3))})
	c := s.pageOf(t, "docs/upgrade.md", "Write, edit and run a plan", map[string]string{"my-gr": m.name})
	gr.Spec.DevicePlugin.Version, gr.Spec.GFD.Version = "v2", "v2"
	m.write(filepath.Join(c.dir, "gr.yaml"), gr)
	c.next(ctx)
	c.says(c.next(ctx), "can be run", "nodes: 6")
	c.says(c.next(ctx), "is written: 6 nodes, batches: 2")
	m.awaits(ctx, "batch-1", 0)
	c.shows(ctx, "batch-1 waits")
	c.says(c.next(ctx), "is approved")
	m.awaits(ctx, "batch-2", 3)
	c.shows(ctx, "in force", "batch-1   done     2", "batch-2   undo     0      2")
	m.approve(ctx, "batch-2", 3)
	m.reaches(ctx, "at v2", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })
	m.hasVersion(ctx, m.name, "v2")

	gr.Spec.GFD.Version = "v3"
	m.globalTasks(ctx, gr)
}

// globalTasks runs a plan whose first global task fails until its template is mended.
func (m *mission) globalTasks(ctx context.Context, gr *topsv1.GcuResource) {
	m.t.Helper()
	backup := m.cronJob(ctx, "gcu-database-backup", "backup:1"+harness.CrashingSuffix, ptr.To[int64](2))
	m.cronJob(ctx, "gcu-nodes-check", "check:1", nil)
	plan := m.planOf(ctx, gr)
	plan.Spec.Before = []topsv1.GlobalTask{{Task: "database_backup", CronJob: backup.Name}}
	plan.Spec.After = []topsv1.GlobalTask{{Task: "nodes_check", CronJob: "gcu-nodes-check"}}
	m.write(m.file, plan)
	m.gcu(ctx, m.t, m.Kubeconfig, 0, []string{"is written"}, "upgrade", "--plan", m.file)
	names := map[string]string{"my-gr": m.name}
	m.reaches(ctx, "held by a task", func(r *topsv1.DaemonRolloutStatus) bool {
		return r.Updated == 0 && reasonOf(r, topsv1.RolloutProgressing) == topsv1.ReasonGlobalTaskFailed
	})
	for job := range m.jobs(ctx) {
		names["JOB"] = job
	}
	c := m.pageOf(m.t, "docs/upgrade.md", "Tasks before and after the nodes", names)
	c.shows(ctx, "GlobalTaskFailed", names["JOB"])
	mended := backup.DeepCopy()
	mended.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image = "backup:1"
	mended.Spec.JobTemplate.Spec.ActiveDeadlineSeconds = nil
	if err := m.Client.Patch(ctx, mended, client.MergeFrom(backup)); err != nil {
		m.t.Fatal(err)
	}
	c.next(ctx)
	m.reaches(ctx, "at v3", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })
	c.shows(ctx, "upg-server   before    done     1", "upg-server   after     done     1")
	if jobs := slices.Sorted(maps.Keys(m.jobs(ctx))); len(jobs) != 2 {
		m.t.Errorf("the Jobs of the plan are %v", jobs)
	}
	m.hasVersion(ctx, m.name, "v3")
}

// cronJob creates a template of a global task.
func (m *mission) cronJob(ctx context.Context, name, image string, deadline *int64) *batchv1.CronJob {
	m.t.Helper()
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{topsv1.LabelGlobalTask: "true"}},
		Spec: batchv1.CronJobSpec{Schedule: "@yearly", Suspend: ptr.To(true), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			ActiveDeadlineSeconds: deadline, BackoffLimit: ptr.To[int32](0), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				ServiceAccountName: "gcu-task-" + name, RestartPolicy: corev1.RestartPolicyNever, NodeSelector: m.selector(),
				Containers: []corev1.Container{{Name: "main", Image: image}}}}}}}}
	m.create(ctx, m.t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gcu-task-" + name}})
	m.create(ctx, m.t, cron)
	return cron
}

// jobs returns the Jobs of global tasks on the stage.
func (m *mission) jobs(ctx context.Context) map[string]bool {
	m.t.Helper()
	var list batchv1.JobList
	if err := m.Client.List(ctx, &list, client.InNamespace("kube-system")); err != nil {
		m.t.Fatal(err)
	}
	jobs := map[string]bool{}
	for _, job := range list.Items {
		if maps.Equal(job.Spec.Template.Spec.NodeSelector, m.selector()) {
			jobs[job.Name] = true
		}
	}
	return jobs
}
