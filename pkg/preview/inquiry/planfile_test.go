package inquiry

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// A node in flight goes on with what it began, so a plan cannot have it: whoever reads the plan is told.
//
// Contract 96.
func TestAPlanWrittenInMidRolloutNamesTheNodesInFlight(t *testing.T) {
	first, second := gr(nil), gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" })
	third := gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "3" })
	const exporter = "enflame-gcu-exporter"
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"}}
	dro.Spec.TargetRef.Kind, dro.Spec.TargetRef.Name = topsv1.GcuResourceKind, "fleet"
	dro.Status.InFlight = []topsv1.NodeSlot{{Node: "b", UID: types.UID("b"), PodUID: types.UID(exporter + "b"), Since: metav1.NewTime(epoch)}}
	a := site(t, first, second, dro)
	if err := a.Reader.(client.Client).Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: exporter + "-b"}}); err != nil {
		t.Fatal(err)
	}
	plan, wrong, err := a.PlanFile(t.Context(), second, third)
	if err != nil || wrong != "" {
		t.Fatal(wrong, err)
	}
	if b := plan.Spec.Batches; len(b) != 1 || len(b[0].Jobs) != 1 || strings.Join(b[0].Jobs[0].Nodes, ",") != "a" ||
		plan.Annotations[topsv1.AnnotationNotPlanned] != "not in this plan: 1 node in flight: b" {
		t.Errorf("the plan is %+v, %v", plan.Spec.Batches, plan.Annotations)
	}
	_, wrong, err = a.PlanFile(t.Context(), second, second)
	if want := "no node of gr fleet can be planned now: 1 node in flight: b"; err != nil || wrong != want {
		t.Errorf("got %q, %v, want %q", wrong, err, want)
	}
	plan, wrong, err = site(t, first, second).PlanFile(t.Context(), second, third)
	if err != nil || wrong != "" || len(plan.Annotations) != 0 {
		t.Errorf("without nodes in flight: %s, %v, %v", wrong, err, plan)
	}
}

// A plan names each node that it lacks. It ignores a pause, which is over when the plan runs.
//
// Contract 91.
func TestAPlanNamesTheNodesThatWait(t *testing.T) {
	first, second := gr(nil), gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" })
	held := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	held.Status.Agent = &topsv1.AgentStatus{Hold: &topsv1.NodeHold{}}
	ota := map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}
	for _, test := range []struct {
		name   string
		more   []client.Object
		with   map[string]string
		taint  string
		off    string
		nodes  string
		lacks  string
		nobody string
	}{
		{name: "all can be planned", nodes: "a,b"},
		{name: "all can be planned while the gr is paused", with: map[string]string{topsv1.AnnotationPaused: "true"}, nodes: "a,b"},
		{name: "one is held", more: []client.Object{held}, nodes: "a", lacks: "not in this plan: 1 node waiting (NodeHeld): b"},
		{name: "a taint keeps pods off one", taint: "b", nodes: "a", lacks: "not in this plan: 1 node waiting (NoSuccessor): b"},
		{name: "one is offline", off: "b", nodes: "a,b"},
		{name: "one is offline and tainted", off: "b", taint: "b", nodes: "a", lacks: "not in this plan: 1 node waiting (NodeOffline): b"},
		{name: "nobody asked, and one is offline", with: ota, off: "b", nobody: "no node of gr fleet can be planned now: 1 node waiting (AwaitingRequest): a; 1 node waiting (NodeOffline): b"},
		{name: "nobody asked, and one is held", with: ota, more: []client.Object{held}, nobody: "no node of gr fleet can be planned now: 1 node waiting (AwaitingRequest): a; 1 node waiting (NodeHeld): b"},
		{name: "nobody asked", with: ota, nobody: "no node of gr fleet can be planned now: 2 nodes waiting (AwaitingRequest): a, b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			present, wanted := first.DeepCopy(), second.DeepCopy()
			maps.Copy(present.Annotations, test.with)
			maps.Copy(wanted.Annotations, test.with)
			a := site(t, first, nil, test.more...)
			if test.taint != "" {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: test.taint}}
				patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}}`))
				if err := a.Reader.(client.Client).Patch(t.Context(), node, patch); err != nil {
					t.Fatal(err)
				}
			}
			if test.off != "" {
				goesOff(t, a, test.off)
			}
			plan, wrong, err := a.PlanFile(t.Context(), present, wanted)
			if err != nil || wrong != test.nobody {
				t.Fatal(wrong, err)
			}
			if test.nobody != "" {
				return
			}
			var nodes []string
			for _, b := range plan.Spec.Batches {
				for _, j := range b.Jobs {
					nodes = append(nodes, j.Nodes...)
				}
			}
			slices.Sort(nodes)
			if got := strings.Join(nodes, ","); got != test.nodes || plan.Annotations[topsv1.AnnotationNotPlanned] != test.lacks {
				t.Errorf("the plan has %q and says %q, want %q and %q", got, plan.Annotations[topsv1.AnnotationNotPlanned], test.nodes, test.lacks)
			}
		})
	}
}

// A node that waits for something else, and may not have what the plan brings after that, would hold the tasks after the nodes for ever.
//
// Contract 97.
func TestAPlanHasNoWaitingNodeOnWhichItsVersionsAreNotAllowed(t *testing.T) {
	for name, waits := range map[string]func(*corev1.Node){
		"offline": func(b *corev1.Node) {
			b.Status.Conditions[0].Status, b.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(epoch.Add(-time.Hour))
		},
		"tainted": func(b *corev1.Node) {
			b.Spec.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
		},
	} {
		t.Run(name, func(t *testing.T) { leavesOutB(t, waits) })
	}
}

func leavesOutB(t *testing.T, waits func(*corev1.Node)) {
	t.Helper()
	of := func(version string) *topsv1.GcuResource {
		g := gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = version })
		g.Annotations[topsv1.AnnotationUpgradePolicy] = "p"
		return g
	}
	steps := &topsv1.VersionPolicy{Steps: []topsv1.VersionStep{{Component: "exporter", From: "1.5.x", To: "1.6.x"}}}
	a := site(t, of("1.4.0"), of("1.5.0"), &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: topsv1.UpgradePolicySpec{Versions: steps}})
	reader := a.Reader.(client.Client)
	b := &corev1.Node{}
	if err := reader.Get(t.Context(), client.ObjectKey{Name: "b"}, b); err != nil {
		t.Fatal(err)
	}
	ds := &appsv1.DaemonSet{}
	if err := reader.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "enflame-gcu-exporter"}, ds); err != nil {
		t.Fatal(err)
	}
	for node, version := range map[string]string{"a": "1.5.0", "b": "1.4.0"} {
		pod := &corev1.Pod{}
		if err := reader.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: ds.Name + "-" + node}, pod); err != nil {
			t.Fatal(err)
		}
		pod.Spec.Containers = ds.DeepCopy().Spec.Template.Spec.Containers
		pod.Spec.Containers[0].Image = "exporter:" + version
		if err := reader.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	waits(b)
	status := b.DeepCopy()
	if err := reader.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	status.ResourceVersion = b.ResourceVersion
	if err := reader.Status().Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	plan, wrong, err := a.PlanFile(t.Context(), of("1.5.0"), of("1.6.0"))
	if err != nil || wrong != "" || len(plan.Spec.Batches) != 1 || plan.Annotations[topsv1.AnnotationNotPlanned] != "not in this plan: 1 node waiting (VersionNotAllowed): b" {
		t.Fatalf("%s %v: %+v %v", wrong, err, plan.Spec.Batches, plan.Annotations)
	}
	plan.Spec.Batches[0].Jobs[0].Nodes = []string{"a", "b"} // by a person
	read, err := planfile.Read(plan, upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	wrong, err = a.CheckPlan(t.Context(), read, of("1.5.0"), of("1.6.0"))
	if err != nil || !strings.HasPrefix(wrong, "the UpgradePolicy does not allow the plan on b, as on b: exporter 1.4.0 > 1.6.0") {
		t.Errorf("%q %v", wrong, err)
	}
}

// A node that went back with one component gets what else is new, and is planned for that only.
//
// Contract 91.
func TestAPlanKeepsANodeAtWhatItWentBackTo(t *testing.T) {
	first, second := gr(nil), gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" })
	const exporter = "exporter_prepull" // it is restarted with the driver in any case
	for _, test := range []struct {
		from string
		has  bool
	}{{"hash-fleet-2", false}, {"hash-of-another-target", true}} {
		dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"}}
		dro.Spec.TargetRef.Kind, dro.Spec.TargetRef.Name = topsv1.GcuResourceKind, "fleet"
		dro.Status.Pinned = []topsv1.NodePin{{Node: "b", UID: "b", DaemonSet: namespace + "/enflame-gcu-exporter", Hash: "hash-fleet-1", From: test.from, Reason: "Undone"}}
		plan, wrong, err := site(t, first, second, dro).PlanFile(t.Context(), second, second)
		if err != nil || wrong != "" {
			t.Fatal(wrong, err)
		}
		var tasks []string
		for _, stage := range plan.Spec.Jobs[0].Stages {
			tasks = append(tasks, stage...)
		}
		if b := plan.Spec.Batches; len(b) != 1 || !slices.Equal(b[0].Jobs[0].Nodes, []string{"b"}) || len(plan.Annotations) != 0 || slices.Contains(tasks, exporter) != test.has {
			t.Errorf("pinned from %s: %+v of %v, %v", test.from, b, tasks, plan.Annotations)
		}
	}
}

// goesOff makes a node offline since an hour.
func goesOff(t *testing.T, a Predictor, name string) {
	t.Helper()
	node := &corev1.Node{}
	if err := a.Reader.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(epoch.Add(-time.Hour))
	if err := a.Reader.(client.Client).Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}
