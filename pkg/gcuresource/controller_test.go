package gcuresource

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

func skipNameValidation() config.Controller {
	return config.Controller{SkipNameValidation: ptr.To(true)}
}

// settles fails if the controllers keep writing although nothing changes.
func (s *stage) settles(name string) {
	s.t.Helper()
	// A pass that does not see the previous write yet repeats it once, without effect.
	s.until("coming to rest", func() string { return strings.Join(s.looksAgain(name), ", ") })
	before := s.gr(name)
	if writes := s.looksAgain(name); len(writes) > 0 {
		s.t.Errorf("nothing changed, but there were writes: %v", writes)
	}
	if after := s.gr(name); after.ResourceVersion != before.ResourceVersion {
		s.t.Errorf("the gr was written: %s", cmp.Diff(before, after))
	}
}

// looksAgain makes both controllers reconcile everything three times, and returns their writes. A
// changed node label triggers the labeler and everything that watches nodes; a pass over an
// object begins when the previous one has ended.
func (s *stage) looksAgain(name string) []string {
	s.t.Helper()
	s.written()
	for range 3 {
		before := s.begun(name, "node-1")
		node := &corev1.Node{}
		s.must(s.get(node, "", "node-1"))
		node.Labels["touched"] += "x"
		s.must(s.Update(context.Background(), node))
		s.until("looking again", func() string {
			for i, now := range s.begun(name, "node-1") {
				if now == before[i] {
					return []string{"the operator does not", "the labeler does not"}[i]
				}
			}
			return ""
		})
	}
	return s.written()
}

// deployed creates a gr of two running components.
func (s *stage) deployed(name string) *topsv1.GcuResource {
	s.t.Helper()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}}}
	s.must(s.Create(context.Background(), gr))
	s.play("enflame-gcu-driver")
	s.play("enflame-gcu-exporter")
	s.reaches(name, "Running", "2/2")
	return s.gr(name)
}

func TestDriftIsPutBack(t *testing.T) {
	s := newStage(t, "node-1")
	s.deployed("drift")
	ctx := context.Background()
	ds := &appsv1.DaemonSet{}
	s.must(s.get(ds, "kube-system", "enflame-gcu-driver"))
	image := ds.Spec.Template.Spec.Containers[0].Image
	ds.Spec.Template.Spec.Containers[0].Image = "somebody/else:v1"
	ds.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	s.must(s.Update(ctx, ds))
	s.until("restoring the DaemonSet", func() string {
		s.must(s.get(ds, "kube-system", "enflame-gcu-driver"))
		if ds.Spec.Template.Spec.Containers[0].Image == image && ds.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			return ""
		}
		return ds.Spec.Template.Spec.Containers[0].Image
	})
	ds.Annotations[topsv1.AnnotationOrder] = "77"
	s.must(s.Update(ctx, ds))
	s.until("restoring the annotation", func() string {
		s.must(s.get(ds, "kube-system", "enflame-gcu-driver"))
		if ds.Annotations[topsv1.AnnotationOrder] == "2" {
			return ""
		}
		return ds.Annotations[topsv1.AnnotationOrder]
	})
	service := &corev1.Service{}
	s.must(s.get(service, "kube-system", "enflame-gcu-exporter"))
	uid := service.UID
	s.remove(service)
	s.until("recreating the Service", func() string {
		if err := s.get(service, "kube-system", "enflame-gcu-exporter"); err != nil {
			return err.Error()
		}
		if service.UID == uid {
			return "it is the old one"
		}
		return ""
	})
	if port := service.Spec.Ports[0].NodePort; port != 30940 {
		t.Errorf("NodePort is %d", port)
	}
}

func TestUpgradeAnnotationsComeAndGoWithTheGR(t *testing.T) {
	s := newStage(t, "node-1")
	gr := s.deployed("annotated")
	ds := &appsv1.DaemonSet{}
	s.must(s.get(ds, "kube-system", "enflame-gcu-driver"))
	generation := ds.Generation
	carry := func(what string, want string) {
		t.Helper()
		s.must(s.Update(context.Background(), gr))
		s.until(what, func() string {
			s.must(s.get(ds, "kube-system", "enflame-gcu-driver"))
			if got := ds.Annotations[topsv1.AnnotationUpdateStrategy]; got != want {
				return "the strategy is " + got
			}
			return ""
		})
	}
	gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}
	carry("carrying the annotation", "AdvancedRollingUpdate")
	gr = s.gr(gr.Name)
	gr.Annotations = nil
	carry("removing the annotation", "")
	if ds.Generation != generation {
		t.Errorf("annotations made generation %d out of %d", ds.Generation, generation)
	}
}

func TestAnUpgradeInPlace(t *testing.T) {
	s := newStage(t, "node-1", "node-2")
	gr := s.deployed("upgraded")
	gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}
	gr.Spec.Driver.Version = "v2"
	s.must(s.Update(context.Background(), gr))
	s.reaches(gr.Name, "upgrading", "1/2")
	if got := s.gr(gr.Name).Status; got.Conditions[len(got.Conditions)-1].Action != "upgrade" {
		t.Errorf("the newest condition is %+v", got.Conditions)
	}
	s.play("enflame-gcu-driver")
	s.reaches(gr.Name, "Running", "2/2")
	want := topsv1.ActionCondition{Action: "upgrade", Type: "upgrade", Status: "success", Reason: "success", Message: "success", Progress: 100}
	if diff := cmp.Diff(want, world.Action(s.gr(gr.Name).Status, "upgrade")); diff != "" {
		t.Errorf("upgrade (-want +got):\n%s", diff)
	}
}

func TestAForeignObjectIsNeverTakenOver(t *testing.T) {
	s := newStage(t, "node-1")
	ctx := context.Background()
	labels := map[string]string{"app": "foreign"}
	foreign := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "enflame-gcu-docker-plugin", Namespace: "kube-system"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	s.must(s.Create(ctx, foreign))
	t.Cleanup(func() { s.remove(foreign) })
	before := foreign.ResourceVersion
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "conflict"}, Spec: topsv1.GcuResourceSpec{
		Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}}
	s.must(s.Create(ctx, gr))
	s.play("enflame-gcu-driver")
	s.reaches("conflict", "failed", "1/3")
	s.sees("conflict", "toolkit", "failed", "DaemonSet kube-system/enflame-gcu-docker-plugin exists and was not created by this operator: "+
		"delete it, or give the component another name or set its notDeploy: true")
	s.sees("conflict", "gfd", "deploying", "waiting for toolkit")
	s.must(s.get(foreign, "kube-system", "enflame-gcu-docker-plugin"))
	if foreign.ResourceVersion != before {
		t.Errorf("the foreign DaemonSet was written: %+v", foreign.ObjectMeta)
	}
}

// An existing object may be missing from the cache, so the API server is read before anything is
// created.
func TestAForeignObjectTheCacheDoesNotHaveIsFoundBeforeACreation(t *testing.T) {
	c := testClient(t)
	ctx := context.Background()
	gr := world.NewGR(topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}})
	account := component.Ref{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Namespace: "kube-system", Name: "nfd-service-account"}
	a := applier{c, c}
	if live, err := a.readLive(ctx, gr, account); live != nil || err != nil {
		t.Errorf("an object that does not exist: got %v, %v", live, err)
	}
	foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}
	if err := c.Create(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(ctx, foreign); err != nil {
			t.Error(err)
		}
	})
	nfd := state.Component{Rendered: world.Render(t, gr)[0], Live: map[component.Ref]*metav1.PartialObjectMetadata{}}
	_, err := a.apply(ctx, gr, &nfd, &nfd.Objects[4])
	if err == nil {
		t.Fatal("the foreign object was taken over")
	}
	if f := state.FailureOf(err); f.Reason != state.ReasonObjectConflict || f.Retry {
		t.Errorf("got %v", err)
	}
}

func TestARefusalOfTheAPIServerIsReportedVerbatim(t *testing.T) {
	s := newStage(t, "node-1")
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: topsv1.GcuResourceSpec{
		Driver: &topsv1.BaseFields{NodeSelector: map[string]string{"not a label": "x"}}}}
	s.must(s.Create(context.Background(), gr))
	s.reaches("refused", "failed", "0/1")
	if m := s.gr("refused").Status.ResourceStatuses[0].Message; !strings.Contains(m, "spec.template.spec.nodeSelector") {
		t.Errorf("message %q", m)
	}
	gr = s.gr("refused")
	gr.Spec.Driver.NodeSelector = nil
	s.must(s.Update(context.Background(), gr))
	s.play("enflame-gcu-driver")
	s.reaches("refused", "Running", "1/1")
}

func TestARemovedComponentIsDeleted(t *testing.T) {
	s := newStage(t, "node-1")
	gr := s.deployed("shrinking")
	gr.Spec.Exporter.NotDeploy = true
	s.must(s.Update(context.Background(), gr))
	s.reaches("shrinking", "Running", "1/1")
	s.until("deleting the exporter", func() string {
		if s.exists("enflame-gcu-exporter") || s.get(&corev1.Service{}, "kube-system", "enflame-gcu-exporter") == nil {
			return "it exists"
		}
		return ""
	})
}

func TestDeletionRunsInReverseOrderAndKeepsTheCRD(t *testing.T) {
	s := newStage(t, "node-1")
	ctx := context.Background()
	gr := example(t, "gcu-resource.json")
	s.must(s.Create(ctx, gr))
	for _, name := range blueprint {
		s.play(name)
	}
	s.reaches(gr.Name, "Running", "5/5")
	s.until("labeling the node", func() string { return s.marked("node-1", true) })
	s.must(s.Delete(ctx, gr))
	t.Run("contract 52: deleting a gr removes every component it deployed", func(*testing.T) { s.watchDeletion(gr) })
	if message := s.marked("node-1", false); message != "" {
		t.Error(message)
	}
	if err := s.get(nfdCRD(), "", nfdCRDName); err != nil {
		t.Errorf("the CRD of nfd is gone: %v", err)
	}
}

// watchDeletion checks that the components of the default blueprint are deleted, the last first.
func (s *stage) watchDeletion(gr *topsv1.GcuResource) {
	s.t.Helper()
	for _, name := range slices.Backward(blueprint) {
		s.until("deleting "+name, func() string {
			if s.exists(name) {
				return "it exists"
			}
			return ""
		})
		s.until("waiting for its pods", func() string {
			now := s.gr(gr.Name).Status
			if now.Phase == "deleting" && strings.HasSuffix(world.Action(now, "delete").Message, "waiting for pods on node-1") {
				return ""
			}
			return world.Action(now, "delete").Message
		})
		if message := s.marked("node-1", true); message != "" {
			s.t.Errorf("while %s is removed: %s", name, message)
		}
		s.collect(name)
	}
	s.until("removing the finalizer", func() string {
		if err := s.get(gr, "", gr.Name); client.IgnoreNotFound(err) != nil || err == nil {
			return "the gr exists"
		}
		return ""
	})
}

// marked returns what is wrong with the label of a node, "" if nothing is.
func (s *stage) marked(name string, want bool) string {
	s.t.Helper()
	node := &corev1.Node{}
	s.must(s.get(node, "", name))
	label, record := node.Labels[topsv1.LabelGcuPresent], node.Annotations[topsv1.AnnotationOwnedLabels]
	if set, ours := label == "true", record == topsv1.LabelGcuPresent; set == want && ours == want {
		return ""
	}
	return "label " + label + ", record " + record
}

func TestLabelsOfNodesFollowTheirDevices(t *testing.T) {
	s := newStage(t, "node-1", "node-2")
	ctx := context.Background()
	foreign := &corev1.Node{}
	s.must(s.get(foreign, "", "node-2"))
	foreign.Labels[topsv1.LabelGcuPresent] = "true"
	s.must(s.Update(ctx, foreign))
	s.must(s.Create(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "labels"}}))
	s.until("labeling a node with a device", func() string { return s.marked("node-1", true) })
	node := &corev1.Node{}
	s.must(s.get(node, "", "node-1"))
	delete(node.Labels, "feature.node.kubernetes.io/pci-1e36.present")
	s.must(s.Update(ctx, node))
	s.until("removing the label", func() string { return s.marked("node-1", false) })
	s.must(s.get(foreign, "", "node-2"))
	if foreign.Labels[topsv1.LabelGcuPresent] != "true" || foreign.Annotations[topsv1.AnnotationOwnedLabels] != "" {
		t.Errorf("the label somebody else set was taken over: %v %v", foreign.Labels, foreign.Annotations)
	}
}
