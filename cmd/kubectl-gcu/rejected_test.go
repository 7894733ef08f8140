package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/dashboard"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
)

// rejected creates a gr whose driver 2.0 was rolled back to 1.0: the spec stays, and 1.0 is what nodes run.
func (s *site) rejected(name string) *topsv1.GcuResource {
	s.t.Helper()
	gr := s.gr(name)
	good := s.revision(gr, 1, "1.0")
	gr.Spec.Driver.Version = "2.0"
	if err := s.Update(s.t.Context(), gr); err != nil {
		s.t.Fatal(err)
	}
	s.revision(gr, 2, "2.0")
	bad, err := revision.Name(gr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.create(&topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: name, UID: gr.UID, Controller: ptr.To(true)}}},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: name}},
		Status: topsv1.DaemonRolloutStatus{Revision: "r1", Waves: []topsv1.WaveStatus{{Name: "main", Total: 3}},
			Rollback: &topsv1.RolloutRollback{RejectedRevision: bad, GcuResourceRevision: good, From: "r2", To: "r1", Message: "3 nodes failed", Time: metav1.Now()}}})
	return gr
}

// withTag counts those of a list with a tag.
func withTag(images []string, tag string) int {
	return len(slices.DeleteFunc(slices.Clone(images), func(image string) bool { return !strings.HasSuffix(image, ":"+tag) }))
}

// While the spec is rejected, an earlier one is what nodes run, and what an approval is for.
func TestARejectedSpecIsNotShownAsTheOneThatRuns(t *testing.T) {
	s := newSite(t)
	s.rejected("rejected")
	source := &source{live: clusterOf(t, s)}
	source.cached = source.live
	would, err := source.predict(t.Context(), dashboard.Action{Verb: dashboard.Approve, GR: "rejected", Target: "main"})
	if err != nil || would.Revision != "r1" || withTag(would.Images, "1.0") == 0 || withTag(would.Images, "2.0") > 0 {
		t.Errorf("approve is about %+v, %v", would, err)
	}
	var status display.Status
	err = json.Unmarshal([]byte(s.says(s.gcu("status", "rejected", "-o", "json"), exitOK).out), &status)
	if err != nil || status.Components[0].Version != "1.0" {
		t.Errorf("status shows %+v, %v", status.Components, err)
	}
	page, err := source.Read(t.Context())
	if i := slices.IndexFunc(page, func(r dashboard.Resource) bool { return r.Status.Name == "rejected" }); err != nil || i < 0 || page[i].Status.Components[0].Version != "1.0" {
		t.Errorf("the page shows %+v, %v", page, err)
	}
	s.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: operatorName}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager:v1"}}}}}})
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig, *flags.Namespace = s.kubeconfig, ""
	list, err := (&cli{connection: connection{flags}}).imagesOfCluster(t.Context())
	if err != nil || withTag(list.Images, "1.0") == 0 || withTag(list.Images, "2.0") == 0 || !slices.Contains(list.Images, "manager:v1") {
		t.Errorf("the images are %q, %v", list.Images, err)
	}

	// What is deployed is not known any more.
	if err := s.Delete(t.Context(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "rejected-10"}}); err != nil {
		t.Fatal(err)
	}
	would, err = source.predict(t.Context(), dashboard.Action{Verb: dashboard.Approve, GR: "rejected", Target: "main"})
	if err != nil || would.Revision != "r1" || would.Images != nil || len(would.NotShown) != 1 {
		t.Errorf("approve is about %+v, %v", would, err)
	}
	const lost = "revision rejected-10, to be deployed in place of"
	if a := s.says(s.gcu("status", "rejected"), exitOK, "not shown: the versions of the components: "+lost); strings.Contains(a.out, "2.0") {
		t.Errorf("status shows a version that is not deployed:\n%s", a.out)
	}
	s.says(s.gcu("images"), exitFailed, lost)
}
