package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// revision keeps a spec of a gr, like the operator.
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
	a := s.says(s.gcu("history", "going-back"), exitOK, "current", "driver.version: 0.9 -> 1.0", older)
	if lines := strings.Count(a.out, "\n"); lines != 4 {
		t.Errorf("%d lines:\n%s", lines, a.out)
	}
	s.says(s.gcu("rollback", "going-back", "--to", "7"), exitRefused, "no revision 7 is kept; there are 3 (going-back-10)")
	s.says(s.gcu("rollback", "going-back", "--to", "3"), exitOK, "already has the spec of revision 3 (going-back-10)")
	s.read(gr)
	if _, is := gr.Annotations[topsv1.AnnotationRollbackTo]; is {
		t.Error("a rollback to the current spec was asked for")
	}
	s.says(s.gcu("rollback", "going-back"), exitOK, "goes back to revision 2", "driver.version: 1.0 -> 0.9")
	s.read(gr)
	if got := gr.Annotations[topsv1.AnnotationRollbackTo]; got != older {
		t.Errorf("annotation is %q, want %q", got, older)
	}
	onlyOursWrote(t, gr, topsv1.AnnotationRollbackTo)
	s.says(s.gcu("rollback", "going-back", "--to", oldest), exitRefused, "a rollback of gr going-back to "+older+" has already been requested")
	s.says(s.gcu("rollback", "going-back", "--to", older), exitOK, "goes back")
	s.says(s.gcu("rollback", "going-back", "--to", "3"), exitRefused, "a rollback of gr going-back to "+older+" has already been requested") // it is not undone by that
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradeOnly, "components=driver")
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("rollback", "going-back"), exitOK, "limited to 1 component (driver), as the upgrade was", "kubectl gcu upgrade going-back --all")
	s.says(s.gcuWith(t.Context(), grFile("going-back", "2.0"), "upgrade", "-f", "-"), exitRefused, "a rollback of gr going-back to "+older+" has already been requested")
}

// The operator only tears a gr down that is being deleted: nothing that is written to it is read.
func TestAGrThatIsBeingDeletedIsNotChanged(t *testing.T) {
	s := newSite(t)
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "ending-policy"}, Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
		{Name: "main", Selector: &metav1.LabelSelector{}, Approval: topsv1.ApprovalManual}}}})
	gr := s.gr("ending", topsv1.AnnotationPaused, "true", topsv1.AnnotationUpgradePolicy, "ending-policy")
	s.revision(gr, 1, "0.9")
	s.revision(gr, 2, "1.0")
	s.rollout("ending", topsv1.DaemonRolloutStatus{Revision: "r1", FailedNodes: 1, Waves: []topsv1.WaveStatus{{Name: "main", Total: 5}}})
	gr.Finalizers = []string{"example.com/ending"}
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before that of gr
		if err := s.Patch(context.Background(), gr, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Error(err)
		}
	})
	s.read(gr)
	before := gr.ResourceVersion
	for _, args := range [][]string{{"rollback", "ending"}, {"pause", "ending"}, {"resume", "ending"}, {"approve", "ending", "main"}} {
		s.says(s.gcu(args...), exitRefused, "gr ending is being deleted")
	}
	if s.read(gr); gr.ResourceVersion != before {
		t.Errorf("it was written: %v", gr.Annotations)
	}
}
