package observed

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

// leaving lets the pods of a DaemonSet leave their nodes.
func leaving(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
	ds.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
	return ds
}

// waiting takes a pod off its node, as one that is not scheduled yet.
func waiting(pod *corev1.Pod, gated bool) *corev1.Pod {
	node := pod.Spec.NodeName
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}
	if gated {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
	}
	return pod
}

// renamed returns the driver of a gr under its old name, and under a new one that takes over from it.
func renamed() (old, young *appsv1.DaemonSet) {
	old, young = leaving(fixture.ComponentOf("driver")), fixture.ComponentOf("driver")
	young.Name, young.UID = "young", "uid-young"
	young.Annotations[topsv1.AnnotationSuccessorOf] = old.Namespace + "/" + old.Name + ";hash"
	return old, young
}

func TestAPodThatWaitsForItsRivalCountsAsAvailable(t *testing.T) {
	for name, tt := range map[string]struct {
		old                  func(ds *appsv1.DaemonSet) *corev1.Pod
		rivalRuns, available bool
	}{
		"while that runs":        {func(ds *appsv1.DaemonSet) *corev1.Pod { return fixture.PodOn(ds, "a", fixture.OldHash) }, true, true},
		"when it is placeholder": {func(ds *appsv1.DaemonSet) *corev1.Pod { return waiting(fixture.PodOn(ds, "a", fixture.NewHash), true) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			old, young := renamed()
			o := worldOf([]memberAndPods{memberWith(old, tt.old(old)), memberWith(young, waiting(fixture.PodOn(young, "a", fixture.NewHash), false))}, fixture.Node("a"))
			pods := o.fleet.Node("a").Pods
			i := slices.IndexFunc(o.Members, func(m Member) bool { return m.DaemonSet.Name == "young" })
			if pods[i].RivalRuns != tt.rivalRuns || pods[i].Available != tt.available {
				t.Errorf("rival runs %t, available %t", pods[i].RivalRuns, pods[i].Available)
			}
		})
	}
}

func TestAnOperationOnARenamedComponentHasOneTargetForIt(t *testing.T) {
	old, young := renamed()
	o := worldOf([]memberAndPods{memberWith(old, fixture.PodOn(old, "a", fixture.OldHash)), memberWith(young, waiting(fixture.PodOn(young, "a", fixture.NewHash), false))}, fixture.Node("a"))
	in := inputFrom(o)
	got, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op")
	if err != nil {
		t.Fatal(err)
	}
	ref := func(ds *appsv1.DaemonSet) topsv1.NamespacedRef {
		return topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID}
	}
	want := []topsv1.OperationTarget{{Component: "driver", DaemonSet: ref(young), Revision: fixture.NewHash, Images: []string{"registry.example/driver:2"},
		Leaving: []topsv1.DaemonSetRevision{{DaemonSet: ref(old), Revision: fixture.NewHash}}}}
	if diff := cmp.Diff(want, got.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(got.Job, func(s topsv1.JobStage) bool { return slices.Contains(s, "a_driver_verify") }) {
		t.Errorf("the driver under its new name is not verified: %v", got.Job)
	}
}

// The file of a plan, which is written before what is new exists, has the tasks that are run once it does.
func TestAPreviewPlansWhatIsNewAsItIsRun(t *testing.T) {
	old, young := renamed()
	added := fixture.ComponentOf("devicePlugin")
	was := memberWith(old, fixture.PodOn(old, "a", fixture.OldHash))
	tasks := func(o *world) []upgradeplan.Task {
		in := inputFrom(o)
		got, err := upgradeplan.Generate(testBook, []upgradeplan.Node{o.OperationPlan(&in, &testBook, o.fleet.Node("a"))})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	run := tasks(worldOf([]memberAndPods{was, memberWith(young, waiting(fixture.PodOn(young, "a", fixture.NewHash), false)),
		memberWith(added, fixture.PodOn(added, "a", fixture.NewHash))}, fixture.Node("a")))
	before := worldOf([]memberAndPods{was}, fixture.Node("a"))
	n := *before.fleet.Node("a")
	n.New = newOn([]Member{{DaemonSet: young}, {DaemonSet: added}}, fixture.Node("a"))
	in := inputFrom(before)
	before.fleet.Set(n, in.Now)
	if diff := cmp.Diff(run, tasks(before)); diff != "" || !slices.Contains(run, upgradeplan.Task{Host: "a", Target: "driver", Action: upgradeplan.ActionVerify}) {
		t.Errorf("tasks (-run +previewed):\n%s", diff)
	}
}

func TestAComponentThatIsRemovedIsNotVerified(t *testing.T) {
	old := leaving(fixture.ComponentOf("driver"))
	o := worldOf([]memberAndPods{memberWith(old, fixture.PodOn(old, "a", fixture.OldHash))}, fixture.Node("a"))
	in := inputFrom(o)
	got, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op")
	want := []topsv1.JobStage{{"a_node_precheck"}, {"a_node_cordon"}, {"a_node_evict"}, {"a_driver_replace"}, {"a_node_soak"}, {"a_node_uncordon"}}
	if err != nil || cmp.Diff(want, got.Job) != "" {
		t.Errorf("job %v, %v", got.Job, err)
	}
	toolkit := fixture.ComponentOf("toolkit")
	if !Restarts(toolkit) || Restarts(leaving(toolkit)) {
		t.Error("a runtime is restarted for a toolkit, unless that leaves")
	}
}
