package gcuresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

// revisions returns the revisions of a gr, newest first.
func revisions(t *testing.T, c client.Client, gr string) []appsv1.ControllerRevision {
	t.Helper()
	var list appsv1.ControllerRevisionList
	if err := c.List(context.Background(), &list, client.InNamespace(revisionNamespace), client.MatchingLabels{topsv1.LabelGcuResource: gr}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(b.Revision - a.Revision) })
	return list.Items
}

func namesOf(list []appsv1.ControllerRevision) []string {
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	return names
}

// version changes the version of the exporter and waits until its revision is the newest. It
// returns the revision's name.
func (s *stage) version(name, version string) string {
	s.t.Helper()
	s.edit(name, func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Version = version })
	var kept string
	s.until("keeping version "+version, func() string {
		kept, _ = revision.Name(s.gr(name))
		if list := revisions(s.t, s, name); len(list) > 0 && list[0].Name == kept {
			return ""
		}
		return fmt.Sprintf("%s is not among %v", kept, namesOf(revisions(s.t, s, name)))
	})
	return kept
}

// edit changes a gr, and retries if the operator wrote it meanwhile.
func (s *stage) edit(name string, change func(*topsv1.GcuResource)) {
	s.t.Helper()
	s.until("editing "+name, func() string {
		gr := s.gr(name)
		if gr.Annotations == nil {
			gr.Annotations = map[string]string{}
		}
		change(gr)
		if err := s.Update(context.Background(), gr); err != nil {
			return err.Error()
		}
		return ""
	})
}

func rollBackTo(name string) func(*topsv1.GcuResource) {
	return func(gr *topsv1.GcuResource) { gr.Annotations[topsv1.AnnotationRollbackTo] = name }
}

// isBack waits until the exporter of a gr has a version and the annotation is gone.
func (s *stage) isBack(name, version string) {
	s.t.Helper()
	s.until("going back to "+version, func() string {
		gr := s.gr(name)
		requested, asked := gr.Annotations[topsv1.AnnotationRollbackTo]
		if gr.Spec.Exporter.Version == version && !asked {
			return ""
		}
		return gr.Spec.Exporter.Version + ", asked for " + requested
	})
}

func TestTheLastTenSpecsAreKept(t *testing.T) {
	s := newStage(t, "node-1")
	gr := s.deployed("kept")
	first := revisions(t, s, gr.Name)
	if len(first) != 1 {
		t.Fatalf("%d revisions of a new gr", len(first))
	}
	owner := metav1.GetControllerOf(&first[0])
	if owner == nil || owner.UID != gr.UID || owner.Kind != "GcuResource" || first[0].Labels[topsv1.LabelManagedBy] != "gcu-operator" {
		t.Errorf("metadata of the revision: %+v", first[0].ObjectMeta)
	}
	writes := s.written()
	created := slices.Index(writes, "create "+first[0].Name)
	if applied := slices.Index(writes, "apply enflame-gcu-driver"); created < 0 || applied < created {
		t.Errorf("the revision is not kept before the templates are applied: %v", writes)
	}
	ds := &appsv1.DaemonSet{}
	s.must(s.get(ds, "kube-system", "enflame-gcu-exporter"))
	if got := ds.Annotations[topsv1.AnnotationRevision]; got != first[0].Name || ds.Spec.Template.Annotations[topsv1.AnnotationRevision] != "" {
		t.Errorf("the DaemonSet says it comes from %q, template %v", got, ds.Spec.Template.Annotations)
	}

	want := []string{first[0].Name}
	for i := 1; i < revision.Limit; i++ {
		want = append([]string{s.version(gr.Name, fmt.Sprintf("v%d", i))}, want...)
	}
	if diff := cmp.Diff(want, namesOf(revisions(t, s, gr.Name))); diff != "" {
		t.Errorf("ten specs (-want +got):\n%s", diff)
	}
	again := s.version(gr.Name, "v3")
	want = append([]string{again}, slices.DeleteFunc(want, func(n string) bool { return n == again })...)
	if diff := cmp.Diff(want, namesOf(revisions(t, s, gr.Name))); diff != "" {
		t.Errorf("an equal earlier spec is made the newest (-want +got):\n%s", diff)
	}
	newest := revisions(t, s, gr.Name)[0].Revision
	want = append([]string{s.version(gr.Name, "v11")}, want[:revision.Limit-1]...)
	s.until("deleting the oldest", func() string { return cmp.Diff(want, namesOf(revisions(t, s, gr.Name))) })
	if got := revisions(t, s, gr.Name)[0].Revision; got != newest+1 {
		t.Errorf("number %d after %d", got, newest)
	}
	s.reaches(gr.Name, "Running", "2/2")
	s.settles(gr.Name)
}

func TestTheLastKnownGoodSpecIsNotDeleted(t *testing.T) {
	s := newStage(t, "node-1")
	gr := s.deployed("protected")
	good := revisions(t, s, gr.Name)[0].Name
	rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: revisionNamespace, Name: gr.Name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: gr.Name}}}
	s.must(s.Create(context.Background(), rollout))
	t.Cleanup(func() { s.remove(rollout) })
	rollout.Status.LastKnownGood = &topsv1.KnownGoodRevision{Revision: "r1", GcuResourceRevision: good, Since: metav1.Now()}
	s.must(s.Status().Update(context.Background(), rollout))
	for i := range revision.Limit + 2 {
		s.version(gr.Name, fmt.Sprintf("v%d", i))
	}
	s.until("deleting the oldest but the good one", func() string {
		names := namesOf(revisions(t, s, gr.Name))
		if len(names) == revision.Limit+1 && names[revision.Limit] == good {
			return ""
		}
		return fmt.Sprint(names)
	})
}

func TestAnEarlierSpecIsRestored(t *testing.T) {
	s := newStage(t, "node-1")
	gr := s.deployed("back")
	s.edit(gr.Name, func(gr *topsv1.GcuResource) {
		gr.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
	})
	s.version(gr.Name, "v1")
	second := s.version(gr.Name, "v2")
	s.edit(gr.Name, func(gr *topsv1.GcuResource) { gr.Annotations[topsv1.AnnotationUpgradePlan] = "for-v2" })
	s.edit(gr.Name, rollBackTo(topsv1.RollbackToPrevious))
	s.isBack(gr.Name, "v1")
	if plan := s.gr(gr.Name).Annotations[topsv1.AnnotationUpgradePlan]; plan != "" {
		t.Errorf("the restored spec follows plan %s, which is for another one", plan)
	}
	first, _ := revision.Name(s.gr(gr.Name))
	s.until("saying so", func() string {
		now := s.gr(gr.Name)
		if c := world.Action(now.Status, "rollback"); c.Status != "rollbacking" || now.Status.Phase != "rollbacking" || !strings.HasPrefix(c.Message, "back to "+first) {
			return fmt.Sprintf("phase %s, %+v", now.Status.Phase, c)
		}
		return ""
	})
	s.play("enflame-gcu-exporter")
	s.reaches(gr.Name, "Running", "2/2")
	if c := world.Action(s.gr(gr.Name).Status, "rollback"); c.Status != "success" {
		t.Errorf("rollback %+v", c)
	}
	s.until("making the restored spec the newest", func() string {
		return cmp.Diff([]string{first, second}, namesOf(revisions(t, s, gr.Name))[:2])
	})
	s.edit(gr.Name, rollBackTo(topsv1.RollbackToPrevious))
	s.isBack(gr.Name, "v2")
	s.edit(gr.Name, rollBackTo(second))
	s.isBack(gr.Name, "v2")
	if got := s.gr(gr.Name).Annotations[topsv1.AnnotationRolledBackTo]; got != second {
		t.Errorf("the spec is said to come from %q, want %q", got, second)
	}
	s.version(gr.Name, "v3")
	s.until("forgetting the rollback", func() string { return s.gr(gr.Name).Annotations[topsv1.AnnotationRolledBackTo] })
}

func TestAnUnknownRevisionIsReportedAndNothingIsChanged(t *testing.T) {
	s := newStage(t, "node-1")
	gr := s.deployed("unknown")
	refused := func(requested, reason string) {
		t.Helper()
		s.edit(gr.Name, rollBackTo(requested))
		s.until("refusing "+requested, func() string {
			now := s.gr(gr.Name)
			if c := world.Action(now.Status, "rollback"); c.Status != "failed" || c.Reason != reason || c.Message == "" {
				return fmt.Sprintf("%+v", c)
			}
			if !strings.HasPrefix(world.Standard(now.Status, status.ConditionDegraded), "True "+reason) {
				return world.Standard(now.Status, status.ConditionDegraded)
			}
			return ""
		})
		now := s.gr(gr.Name)
		if now.Annotations[topsv1.AnnotationRollbackTo] != requested || now.Generation != gr.Generation || now.Status.Phase != "Running" {
			t.Errorf("annotations %v, generation %d, phase %s", now.Annotations, now.Generation, now.Status.Phase)
		}
	}
	refused("previous", revision.ReasonNoPreviousRevision)
	refused("nonsense", revision.ReasonUnknownRevision)
	s.edit(gr.Name, func(gr *topsv1.GcuResource) { delete(gr.Annotations, topsv1.AnnotationRollbackTo) })
	s.until("forgetting it", func() string {
		now := s.gr(gr.Name).Status
		if world.Action(now, "rollback").Action != "" || !strings.HasPrefix(world.Standard(now, status.ConditionDegraded), "False") {
			return world.Standard(now, status.ConditionDegraded)
		}
		return ""
	})
}

func TestARevisionOfAnotherOwnerIsNotAdopted(t *testing.T) {
	c := testClient(t)
	ctx := context.Background()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Spec: world.DriverAt("v1")}
	if err := c.Create(ctx, gr); err != nil {
		t.Fatal(err)
	}
	name, err := revision.Name(gr)
	if err != nil {
		t.Fatal(err)
	}
	foreign := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: revisionNamespace, Name: name}, Data: runtime.RawExtension{Raw: []byte("{}")}}
	if err := c.Create(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: c, APIReader: c, Recorder: events.NewFakeRecorder(100), Namespace: revisionNamespace}
	pass := func() error {
		_, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: gr.Name}})
		return err
	}
	if err := pass(); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v, want an error that names %s", err, name)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Error(err)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "enflame-gcu-driver"}, &appsv1.DaemonSet{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the template was applied though its spec is not kept: %v", err)
	}
	if err := errors.Join(c.Delete(ctx, foreign), c.Delete(ctx, gr), pass()); err != nil {
		t.Error(err)
	}
}
