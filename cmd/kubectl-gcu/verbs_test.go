package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// gr makes a gr with a driver that the operator has seen.
func (s *site) gr(name string, annotations ...string) *topsv1.GcuResource {
	s.t.Helper()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1.0"}},
		Status: topsv1.GcuResourceStatus{ObservedGeneration: 1, Phase: topsv1.PhaseRunning, ReadyResource: "1/1",
			ResourceStatuses: []topsv1.ResourceStatus{{Name: "driver", Namespace: "kube-system", Status: topsv1.PhaseRunning}}}}
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, annotations[i], annotations[i+1])
	}
	s.create(gr)
	return gr
}

// rollout makes the DaemonRollout of a gr.
func (s *site) rollout(name string, status topsv1.DaemonRolloutStatus) *topsv1.DaemonRollout {
	s.t.Helper()
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: name}}, Status: status}
	s.create(dro)
	return dro
}

// upgrade makes the NodeUpgrade of a node at work.
func (s *site) upgrade(node string, edit func(*topsv1.NodeUpgrade)) *topsv1.NodeUpgrade {
	s.t.Helper()
	task := func(name string) topsv1.TaskName { return topsv1.TaskName(node + "_" + name) }
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}}
	u.Spec.Operation = &topsv1.NodeOperation{ID: "op-1", NodeUID: "uid", Granted: true,
		Targets: []topsv1.OperationTarget{{Component: "driver", Revision: "new", DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver", UID: "x"}}},
		Job:     []topsv1.JobStage{{task("node_cordon")}, {task("driver_replace")}, {task("driver_verify")}, {task("node_uncordon")}}}
	u.Status.Operation = &topsv1.OperationStatus{ID: "op-1", Phase: topsv1.OperationFailed, Held: true, Reason: "VerifyFailed", Since: metav1.Now(), StartTime: metav1.Now(),
		Tasks: []topsv1.OperationTask{{Name: string(task("driver_replace")), State: topsv1.OperationTaskDone}, {Name: string(task("driver_verify")), State: topsv1.OperationTaskFailed}}}
	if edit != nil {
		edit(u)
	}
	s.create(u)
	return u
}

// onlyOursWrote fails unless kubectl-gcu owns an annotation, by a patch.
func onlyOursWrote(t *testing.T, o client.Object, field string) {
	t.Helper()
	if !slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == fieldManager && f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), field)
	}) {
		t.Errorf("field manager %s does not own %s: %+v", fieldManager, field, o.GetManagedFields())
	}
}

func TestPauseAndResume(t *testing.T) {
	s := newSite(t)
	gr := s.gr("pausing", "example.com/mine", "stays")
	s.says(s.gcu("pause", "pausing"), exitOK, "gr pausing is paused", "kubectl gcu resume pausing")
	s.read(gr)
	if gr.Annotations[topsv1.AnnotationPaused] != "true" || gr.Annotations["example.com/mine"] != "stays" {
		t.Errorf("annotations are %v", gr.Annotations)
	}
	onlyOursWrote(t, gr, topsv1.AnnotationPaused)
	before := gr.ResourceVersion
	s.says(s.gcu("pause", "pausing"), exitOK, "is paused already")
	s.read(gr)
	if gr.ResourceVersion != before {
		t.Error("pausing what is paused was a write")
	}
	s.says(s.gcu("resume", "pausing"), exitOK, "is not paused any more")
	s.read(gr)
	if _, is := gr.Annotations[topsv1.AnnotationPaused]; is || gr.Annotations["example.com/mine"] != "stays" {
		t.Errorf("annotations are %v", gr.Annotations)
	}
	s.says(s.gcu("resume", "pausing"), exitOK, "there is nothing to resume")
	s.says(s.gcu("pause", "missing"), exitRefused, "there is no gr missing")
}

func TestResumeForgivesWhatHaltedARollout(t *testing.T) {
	s := newSite(t)
	s.gr("halting")
	dro := s.rollout("halting", topsv1.DaemonRolloutStatus{FailedNodes: 2, Conditions: []metav1.Condition{
		{Type: topsv1.RolloutHalted, Status: metav1.ConditionTrue, Reason: "Halted", LastTransitionTime: metav1.Now()}}})
	s.says(s.gcu("resume", "halting"), exitOK, "resumes; failures cleared on 2 nodes")
	s.read(dro)
	first := dro.Annotations[topsv1.AnnotationResume]
	onlyOursWrote(t, dro, topsv1.AnnotationResume)
	s.says(s.gcu("resume", "halting"), exitOK)
	s.read(dro)
	if again := dro.Annotations[topsv1.AnnotationResume]; first == "" || again == first {
		t.Errorf("annotation %q, then %q, want a new value", first, again)
	}
}

func TestResumeOfAPausedGrForgivesNoFailureThatDoesNotHaltIt(t *testing.T) {
	s := newSite(t)
	s.gr("failing", topsv1.AnnotationPaused, "true")
	dro := s.rollout("failing", topsv1.DaemonRolloutStatus{FailedNodes: 1})
	s.says(s.gcu("resume", "failing"), exitOK, "is not paused any more", "1 node failed, which does not halt it; kubectl gcu resume failing again")
	s.read(dro)
	if len(dro.Annotations) != 0 {
		t.Errorf("annotations are %v", dro.Annotations)
	}
	s.says(s.gcu("resume", "failing"), exitOK, "failures cleared on 1 node")
	s.read(dro)
	if dro.Annotations[topsv1.AnnotationResume] == "" {
		t.Error("the failure is not forgiven")
	}
}

// revision keeps a spec of a gr, as the operator does.
func (s *site) revision(gr *topsv1.GcuResource, number int64, version string) string {
	s.t.Helper()
	data, err := json.Marshal(map[string]any{"spec": topsv1.GcuResourceSpec{Driver: specOf(gr, version)}})
	if err != nil {
		s.t.Fatal(err)
	}
	name := gr.Name + "-" + strings.ReplaceAll(version, ".", "")
	s.create(&appsv1.ControllerRevision{Revision: number, Data: runtime.RawExtension{Raw: data}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: name, Labels: map[string]string{topsv1.LabelGcuResource: gr.Name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: "GcuResource", Name: gr.Name, UID: gr.UID, Controller: ptr.To(true)}}}})
	return name
}

func specOf(gr *topsv1.GcuResource, version string) *topsv1.BaseFields {
	fields := gr.Spec.Driver.DeepCopy()
	fields.Version = version
	return fields
}

func TestHistoryAndRollback(t *testing.T) {
	s := newSite(t)
	gr := s.gr("going-back")
	oldest, older := s.revision(gr, 1, "0.8"), s.revision(gr, 2, "0.9")
	s.revision(gr, 3, "1.0")
	a := s.says(s.gcu("history", "going-back"), exitOK, "present", "driver.version: 0.9 -> 1.0", older)
	if lines := strings.Count(a.out, "\n"); lines != 4 {
		t.Errorf("%d lines:\n%s", lines, a.out)
	}
	s.says(s.gcu("rollback", "going-back", "--to", "7"), exitRefused, "no revision 7 is kept; there are 3 (going-back-10)")
	s.says(s.gcu("rollback", "going-back", "--to", "3"), exitOK, "has the spec of revision 3 (going-back-10) already")
	s.read(gr)
	if _, is := gr.Annotations[topsv1.AnnotationRollbackTo]; is {
		t.Error("a rollback to the present spec was asked for")
	}
	s.says(s.gcu("rollback", "going-back"), exitOK, "goes back to revision 2", "driver.version: 1.0 -> 0.9")
	s.read(gr)
	if got := gr.Annotations[topsv1.AnnotationRollbackTo]; got != older {
		t.Errorf("annotation is %q, want %q", got, older)
	}
	onlyOursWrote(t, gr, topsv1.AnnotationRollbackTo)
	s.says(s.gcu("rollback", "going-back", "--to", oldest), exitRefused, "a rollback of gr going-back to "+older+" is asked for already")
	s.says(s.gcu("rollback", "going-back", "--to", older), exitOK, "goes back")
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradeOnly, "components=driver")
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("rollback", "going-back"), exitOK, "limited to 1 component (driver), as the upgrade was", "kubectl gcu upgrade going-back --all")
	s.says(s.gcuWith(t.Context(), grFile("going-back", "2.0"), "upgrade", "-f", "-"), exitRefused, "a rollback of gr going-back to "+older+" is asked for")
}

func TestApproveAWave(t *testing.T) {
	s := newSite(t)
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "waves-policy"}, Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
		{Name: "canary", Selector: &metav1.LabelSelector{}}, {Name: "main", Selector: &metav1.LabelSelector{}, Approval: topsv1.ApprovalManual}}}})
	s.gr("waving", topsv1.AnnotationUpgradePolicy, "waves-policy")
	s.says(s.gcu("approve", "waving", "main"), exitRefused, "gr waving has no rollout")
	dro := s.rollout("waving", topsv1.DaemonRolloutStatus{Revision: "r1", Waves: []topsv1.WaveStatus{
		{Name: "canary", Total: 1}, {Name: "main", Total: 5}, {Name: "rest"}}})
	s.says(s.gcu("approve", "waving", "main"), exitRefused, "is NotReached; no wave waits")
	dro.Status.Waves[0].CompletedTime = ptr.To(metav1.Now())
	if err := s.Status().Update(t.Context(), dro); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("approve", "waving"), exitOK, "wave main waits", "missing")
	s.says(s.gcu("approve", "waving", "main"), exitOK, "wave main of gr waving is approved for revision r1")
	s.says(s.gcu("approve", "waving", "main"), exitOK, "already")
	s.read(dro)
	if got := dro.Annotations[topsv1.AnnotationApprovedWaves]; got != "r1/main" {
		t.Errorf("annotation is %q", got)
	}
	onlyOursWrote(t, dro, topsv1.AnnotationApprovedWaves)
}

func TestTaskIsAskedForOnceAndOnlyOfAnOperationThatHasIt(t *testing.T) {
	s := newSite(t)
	u := s.upgrade("task-1", nil)
	s.says(s.gcu("task", "retry", "task-1", "exporter_replace"), exitRefused, "the job has no task task-1_exporter_replace", "its tasks are task-1_driver_replace, task-1_driver_verify")
	s.says(s.gcu("task", "skip", "task-1", "node_cordon"), exitRefused, "cannot be skipped")
	s.says(s.gcu("task", "undo", "task-1", "driver_replace"), exitRefused, "the revision before is not known")
	s.says(s.gcu("task", "retry", "no-such-node", "driver_verify"), exitRefused, "no NodeUpgrade")
	s.says(s.gcu("task", "retry", "task-1", "driver_verify"), exitOK, "retry of task task-1_driver_verify is asked for")
	s.read(u)
	value := u.Annotations[topsv1.AnnotationTaskOverride]
	if !strings.HasPrefix(value, "retry:task-1_driver_verify:20") {
		t.Errorf("annotation is %q", value)
	}
	onlyOursWrote(t, u, topsv1.AnnotationTaskOverride)
	s.says(s.gcu("task", "skip", "task-1", "driver_verify"), exitRefused, "has not read", "which was asked for before")
	u.Status.Operation.Override = value
	if err := s.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("task", "retry", "task-1", "task-1_driver_verify"), exitOK)
	s.read(u)
	if again := u.Annotations[topsv1.AnnotationTaskOverride]; again == value {
		t.Error("the same task again is the same value: the operator would not act on it")
	}
	ended := s.upgrade("task-2", func(u *topsv1.NodeUpgrade) { u.Status.Operation.Held = false })
	s.says(s.gcu("task", "retry", "task-2", "driver_verify"), exitRefused, "has ended: Failed, VerifyFailed")
	s.read(ended)
	if len(ended.Annotations) != 0 {
		t.Errorf("annotations are %v", ended.Annotations)
	}
}

func TestTaskWaitsUntilItIsSo(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		node string
		code int
		say  string
		then func(*topsv1.OperationStatus)
	}{
		{"wait-1", exitOK, "task wait-1_driver_verify is Done", func(o *topsv1.OperationStatus) { o.Tasks[1].State = topsv1.OperationTaskDone }},
		{"wait-2", exitNotYet, "task wait-2_driver_verify failed: Again: still", func(o *topsv1.OperationStatus) {
			o.Tasks[1].Reason, o.Tasks[1].Message = "Again", "still"
		}},
		{"wait-3", exitNotYet, "was followed by another one", func(o *topsv1.OperationStatus) { o.ID = "op-2" }},
	} {
		u := s.upgrade(tt.node, nil)
		done := make(chan answer)
		go func() { done <- s.gcu("task", "retry", tt.node, "driver_verify", "--wait", "--timeout", "20s") }()
		s.eventually("the override", func() bool { s.read(u); return u.Annotations[topsv1.AnnotationTaskOverride] != "" })
		u.Status.Operation.Override = u.Annotations[topsv1.AnnotationTaskOverride]
		tt.then(u.Status.Operation)
		if err := s.Status().Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		s.says(<-done, tt.code, tt.say)
	}
	s.upgrade("wait-4", nil)
	s.says(s.gcu("task", "retry", "wait-4", "driver_verify", "--wait", "--timeout", "1s"), exitNotYet, "timed out after 1s: the operator has not read it yet")
}

func TestAbort(t *testing.T) {
	s := newSite(t)
	u := s.upgrade("abort-1", nil)
	s.says(s.gcu("abort", "abort-1"), exitOK, "operation op-1 on node abort-1 is aborted")
	s.says(s.gcu("abort", "abort-1"), exitOK, "is being aborted already")
	s.read(u)
	if op := u.Spec.Operation; op == nil || !op.Abort || !op.Granted || len(op.Job) != 4 {
		t.Errorf("the operation is %+v", op)
	}
	s.upgrade("abort-2", func(u *topsv1.NodeUpgrade) { u.Status.Operation.Held = false })
	s.says(s.gcu("abort", "abort-2"), exitRefused, "has ended")
	s.upgrade("abort-3", func(u *topsv1.NodeUpgrade) { u.Spec.Operation, u.Status.Operation = nil, nil })
	s.says(s.gcu("abort", "abort-3"), exitRefused, "there is no operation on node abort-3")
	s.says(s.gcu("abort", "no-such-node"), exitRefused, "no NodeUpgrade")
}
