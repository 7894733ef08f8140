package observed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestInputOfCarriesWhatWasObserved(t *testing.T) {
	driver := fixture.DaemonSet("driver")
	driver.Spec.MinReadySeconds = 30
	crashing := fixture.PodOn(driver, "b", fixture.NewHash)
	crashing.Status.Conditions = nil
	crashing.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "load", RestartCount: 3,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	again := fixture.PodOn(driver, "a", fixture.OldHash)
	again.Status.InitContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} // a sidecar
	young := fixture.PodOn(driver, "c", fixture.NewHash)
	young.Status.Conditions[0].LastTransitionTime = fixture.Ago(10 * time.Second)
	o := worldOf([]memberAndPods{memberWith(driver, again, crashing, young, fixture.Deleting(fixture.PodOn(driver, "d", fixture.OldHash)))},
		fixture.Node("a"), fixture.Node("b"), fixture.Node("c"), fixture.Offline(fixture.Node("d")), fixture.Node("e"))
	o.Rollout.Status = topsv1.DaemonRolloutStatus{Revision: "r1", Touched: 3, UsualSeconds: 40, Resumed: "sunday"}
	o.Rollout.Annotations = map[string]string{"topsops.enflame.com/resume": "monday", "topsops.enflame.com/approved-waves": "r1/first"}

	pod := func(name, revision string) rollout.Pod {
		return rollout.Pod{Node: name, Name: "driver-" + name, UID: types.UID("uid-driver-" + name), Created: fixture.Epoch.Add(-time.Hour), Revision: revision}
	}
	ready := func(name string, p rollout.Pod) rollout.Node {
		return rollout.Node{Name: name, UID: types.UID("uid-" + name), Zone: "z", Ready: true, ReadySince: fixture.Epoch.Add(-time.Hour), ReadyWritten: fixture.Epoch.Add(-time.Hour), ReadyEarliest: fixture.Epoch.Add(-time.Hour), Agent: AgentOf(nil), Pods: []rollout.Pod{p}}
	}
	a, b, c, d := ready("a", pod("a", fixture.OldHash)), ready("b", pod("b", fixture.NewHash)), ready("c", pod("c", fixture.NewHash)), ready("d", pod("d", fixture.OldHash))
	a.Pods[0].Available, a.Pods[0].WorksSince, a.Pods[0].ReadyAgain = true, fixture.Epoch.Add(-time.Hour+30*time.Second), fixture.Epoch.Add(-time.Hour)
	b.Pods[0].CrashLooping, b.Pods[0].NotReadySince, b.Pods[0].NotReadyEarliest = "load", b.Pods[0].Created, b.Pods[0].Created
	c.Pods[0].AvailableAt, c.Pods[0].WorksSince = fixture.Epoch.Add(20*time.Second), fixture.Epoch.Add(20*time.Second)
	d.Ready, d.ReadySince, d.Pods[0].Terminating = false, fixture.Epoch.Add(-time.Minute), true
	d.ReadyWritten, d.ReadyEarliest = d.ReadySince, d.ReadySince
	d.Pods[0].NotReadySince, d.Pods[0].NotReadyEarliest = fixture.Epoch, fixture.Epoch // it is being deleted since then
	want := rollout.Input{
		Now: fixture.Epoch, Deadlines: rollout.DefaultDeadlines,
		Settings: daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate, MaxUnavailable: intstr.FromInt32(1)},
		Members:  []rollout.Member{{Key: "kube-system/driver", Target: fixture.NewHash}},
		Ledger:   rollout.Ledger{Revision: "r1", Touched: 3, Usual: 40 * time.Second, Resumed: "sunday"},
		Resume:   "monday",
		Policy:   rollout.Policy{ControlPlane: rollout.ControlPlaneFirst},
	}
	got := inputFrom(o)
	if got.Revision == "" {
		t.Error("the revision has no name")
	}
	got.Revision = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputOf (-want +got):\n%s", diff)
	}
	for _, want := range []rollout.Node{a, b, c, d, ready("e", rollout.Pod{Node: "e"})} {
		if diff := cmp.Diff(&want, o.fleet.Node(want.Name), cmpopts.IgnoreUnexported(want)); diff != "" {
			t.Errorf("node %s (-want +got):\n%s", want.Name, diff)
		}
	}
}

func TestInputOfIsBlocked(t *testing.T) {
	behind := func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
		ds.Status.ObservedGeneration = 1
		return ds
	}
	strategy, limit := topsv1.AnnotationUpdateStrategy, topsv1.AnnotationMaxUnavailable
	unannotated := fixture.DaemonSet("driver")
	unannotated.Annotations = nil
	tests := []struct {
		name    string
		members []memberAndPods
		want    *rollout.Blocked
	}{
		{"not at all when settings and targets are known", []memberAndPods{memberWith(fixture.DaemonSet("driver")), memberWith(fixture.DaemonSet("exporter"))}, nil},
		{"by settings that are wrong", []memberAndPods{memberWith(fixture.Annotate(fixture.DaemonSet("driver"), limit, "0"))},
			&rollout.Blocked{Reason: "InvalidMaxUnavailable", Message: `annotation topsops.enflame.com/max-unavailable is "0": set it to a whole number of nodes of at least 1, or to a percentage from 1% to 100%`}},
		{"by settings of the last member that are wrong", []memberAndPods{memberWith(fixture.DaemonSet("driver")), memberWith(fixture.Annotate(fixture.DaemonSet("exporter"), strategy, "Canary"))},
			&rollout.Blocked{Reason: "InvalidUpdateStrategy", Message: `annotation topsops.enflame.com/update-strategy is "Canary": set it to AdvancedRollingUpdate or OTA, or remove it`}},
		{"by members that disagree", []memberAndPods{memberWith(fixture.DaemonSet("driver")), memberWith(fixture.DaemonSet("toolkit")), memberWith(fixture.Annotate(fixture.DaemonSet("exporter"), limit, "2"))},
			&rollout.Blocked{Reason: "SettingsDisagree", Message: "DaemonSets kube-system/driver and kube-system/exporter have different upgrade annotations: waiting until both have those of the GcuResource; if it lasts, condition Degraded of the GcuResource names the one to remove"}},
		{"by members of which one is annotated already", []memberAndPods{memberWith(unannotated), memberWith(fixture.DaemonSet("exporter"))},
			&rollout.Blocked{Reason: "SettingsDisagree", Message: "DaemonSets kube-system/driver and kube-system/exporter have different upgrade annotations: waiting until both have those of the GcuResource; if it lasts, condition Degraded of the GcuResource names the one to remove"}},
		{"not by different spellings of the same settings", []memberAndPods{memberWith(fixture.DaemonSet("driver")), memberWith(fixture.Annotate(fixture.DaemonSet("exporter"), strategy, "auto"))}, nil},
		{"by a template that was not observed yet", []memberAndPods{memberWith(fixture.DaemonSet("driver")), memberWith(behind(fixture.DaemonSet("exporter")))},
			&rollout.Blocked{Reason: "RevisionPending", Message: "the DaemonSet controller has observed generation 1 of kube-system/exporter, not yet 2"}},
		{"by wrong settings before a pending revision", []memberAndPods{memberWith(behind(fixture.Annotate(fixture.DaemonSet("driver"), strategy, "")))},
			&rollout.Blocked{Reason: "InvalidUpdateStrategy", Message: `annotation topsops.enflame.com/update-strategy is "": set it to AdvancedRollingUpdate or OTA, or remove it`}},
		{"not by a pending revision that nobody waits for", []memberAndPods{memberWith(behind(unannotated.DeepCopy()))}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputFrom(worldOf(tt.members, fixture.Node("a")))
			if diff := cmp.Diff(tt.want, in.Blocked); diff != "" {
				t.Errorf("Blocked (-want +got):\n%s", diff)
			}
			if tt.want != nil && tt.want.Reason != reasonRevisionPending && in.Settings != (daemonset.Settings{}) {
				t.Errorf("Settings = %+v though they are not accepted", in.Settings)
			}
		})
	}
}

func TestInputOfNamesTheTargetsTogether(t *testing.T) {
	driver, exporter := fixture.DaemonSet("driver"), fixture.DaemonSet("exporter")
	at := func(ds *appsv1.DaemonSet, hash string) memberAndPods {
		return memberAndPods{Member: Member{DaemonSet: ds, Revisions: fixture.RevisionsOf(ds, hash)}}
	}
	name := func(members ...memberAndPods) string { return inputFrom(worldOf(members)).Revision }
	first := name(at(driver, "v1"), at(exporter, "v1"))
	if other := name(at(exporter, "v1"), at(driver, "v1")); other != first {
		t.Errorf("the revision depends on the order of the members: %s and %s", first, other)
	}
	others := map[string]string{
		"a new target of one member": name(at(driver, "v2"), at(exporter, "v1")),
		"the other member's target":  name(at(driver, "v1"), at(exporter, "v2")),
		"one member less":            name(at(driver, "v1")),
	}
	for what, other := range others {
		if other == first {
			t.Errorf("%s is not another revision: %s", what, other)
		}
	}
	if others["a new target of one member"] == others["the other member's target"] {
		t.Error("the revision does not say which member has which target")
	}
}

func TestAnUpgradeIsLimitedByTheAnnotation(t *testing.T) {
	limited := func(value string) (*world, rollout.Input) {
		var members []memberAndPods
		for _, component := range []string{"driver", "exporter"} {
			ds := fixture.ComponentOf(component)
			ds.Annotations[topsv1.AnnotationUpgradeOnly] = value
			members = append(members, memberWith(ds, fixture.PodOn(ds, "a", fixture.OldHash), fixture.PodOn(ds, "b", fixture.OldHash)))
		}
		o := worldOf(members, fixture.Node("a"), fixture.Node("b"))
		return o, inputFrom(o)
	}
	o, in := limited("nodes=b;components=exporter")
	if in.Blocked != nil || !in.Members[0].LeftOut || in.Members[1].LeftOut {
		t.Errorf("blocked %v, members %+v", in.Blocked, in.Members)
	}
	if !o.fleet.Node("a").LeftOut || o.fleet.Node("b").LeftOut {
		t.Error("the nodes are not as annotated")
	}
	for _, value := range []string{"components=drvier", "everything"} {
		if _, in := limited(value); in.Blocked == nil || in.Blocked.Reason != "InvalidUpgradeOnly" {
			t.Errorf("%q blocks with %+v", value, in.Blocked)
		}
	}
}

func TestNewRollout(t *testing.T) {
	yes := true
	tests := []struct {
		name string
		ds   *appsv1.DaemonSet
		want *topsv1.DaemonRollout
	}{
		{"of a DaemonSet is owned by it, beside it", fixture.DaemonSet("driver"), &topsv1.DaemonRollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "driver", Labels: map[string]string{"app.kubernetes.io/managed-by": "gcu-operator"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "driver", UID: "uid-driver", Controller: &yes}}},
			Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "DaemonSet", Name: "driver"}}}},
		{"of a gr is owned by it, in the operator's namespace", fixture.OfGcuResource(fixture.DaemonSet("driver")), &topsv1.DaemonRollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: "fleet", Labels: map[string]string{"app.kubernetes.io/managed-by": "gcu-operator"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "topsops.enflame.com/v1", Kind: "GcuResource", Name: "fleet", UID: "uid-fleet", Controller: &yes}}},
			Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "fleet"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := worldOf([]memberAndPods{memberWith(tt.ds)})
			if diff := cmp.Diff(tt.want, o.NewRollout(o.Group.RolloutKey("gcu-system"))); diff != "" {
				t.Errorf("newRollout (-want +got):\n%s", diff)
			}
			if tt.ds.OwnerReferences != nil && tt.ds.OwnerReferences[0].BlockOwnerDeletion == nil {
				t.Error("the owner reference of the DaemonSet was written to")
			}
		})
	}
}
