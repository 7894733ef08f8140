package daemonupdater

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

func TestInputOfCarriesWhatWasObserved(t *testing.T) {
	driver := daemonSet("driver")
	driver.Spec.MinReadySeconds = 30
	crashing := podOn(driver, "b", newHash)
	crashing.Status.Conditions = nil
	crashing.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "load", RestartCount: 3,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	young := podOn(driver, "c", newHash)
	young.Status.Conditions[0].LastTransitionTime = ago(10 * time.Second)
	o := observed([]memberAndPods{memberWith(driver, podOn(driver, "a", oldHash), crashing, young, deleting(podOn(driver, "d", oldHash)))},
		node("a"), node("b"), node("c"), offline(node("d")), node("e"))
	o.rollout.Status = topsv1.DaemonRolloutStatus{Revision: "r1", Touched: 3, UsualSeconds: 40, Resumed: "sunday"}
	o.rollout.Annotations = map[string]string{"topsops.enflame.com/resume": "monday", "topsops.enflame.com/approved-waves": "r1/first"}

	pod := func(name, revision string) rollout.Pod {
		return rollout.Pod{Name: "driver-" + name, UID: types.UID("uid-driver-" + name), Created: epoch.Add(-time.Hour), Revision: revision}
	}
	ready := func(name string, p rollout.Pod) rollout.Node {
		return rollout.Node{Name: name, UID: types.UID("uid-" + name), Zone: "z", Ready: true, ReadySince: epoch.Add(-time.Hour), Pods: []rollout.Pod{p}}
	}
	a, b, c, d := ready("a", pod("a", oldHash)), ready("b", pod("b", newHash)), ready("c", pod("c", newHash)), ready("d", pod("d", oldHash))
	a.Pods[0].Available = true
	b.Pods[0].CrashLooping = "load"
	c.Pods[0].AvailableAt = epoch.Add(20 * time.Second)
	d.Ready, d.ReadySince, d.Pods[0].Terminating = false, epoch.Add(-time.Minute), true
	want := rollout.Input{
		Now: epoch, Deadlines: rollout.DefaultDeadlines,
		Settings: daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate, MaxUnavailable: intstr.FromInt32(1)},
		Members:  []rollout.Member{{Key: "kube-system/driver", Target: newHash}},
		Ledger:   rollout.Ledger{Revision: "r1", Touched: 3, Usual: 40 * time.Second, Resumed: "sunday"},
		Resume:   "monday",
	}
	got := inputFrom(o)
	if got.Revision == "" {
		t.Error("the revision has no name")
	}
	got.Revision = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputOf (-want +got):\n%s", diff)
	}
	for _, want := range []rollout.Node{a, b, c, d, ready("e", rollout.Pod{})} {
		if diff := cmp.Diff(&want, o.view.fleet.Node(want.Name)); diff != "" {
			t.Errorf("node %s (-want +got):\n%s", want.Name, diff)
		}
	}
}

// podsSeen says per node which pod of which member the plan will see.
func podsSeen(o *observation, nodes []*corev1.Node) map[string][]string {
	seen, in := map[string][]string{}, inputFrom(o)
	for _, node := range nodes {
		n := o.view.fleet.Node(node.Name)
		if n == nil {
			continue
		}
		for _, p := range n.Pods {
			name := p.Name
			if p.UID == "" {
				name = "missing"
			}
			seen[n.Name] = append(seen[n.Name], in.Members[p.Member].Key+"="+name)
		}
	}
	return seen
}

func TestInputOfPicksNodesAndPods(t *testing.T) {
	driver, exporter := daemonSet("driver"), daemonSet("exporter")
	onGcu := daemonSet("driver")
	onGcu.Spec.Template.Spec.NodeSelector = map[string]string{"gcu": "true"}
	labelled := node("a")
	labelled.Labels["gcu"] = "true"
	tainted := func(effect corev1.TaintEffect) *corev1.Node {
		n := node("a")
		n.Spec.Taints = []corev1.Taint{{Key: "team", Effect: effect}}
		return n
	}
	gone := offline(node("a"))
	gone.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	unbound := podOn(driver, "", newHash)
	unbound.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}}}
	tests := []struct {
		name    string
		members []memberAndPods
		nodes   []*corev1.Node
		want    map[string][]string
	}{
		{"a node without its pod is one with a missing pod", []memberAndPods{memberWith(driver)}, []*corev1.Node{node("a")},
			map[string][]string{"a": {"kube-system/driver=missing"}}},
		{"a node the selector leaves out is left out", []memberAndPods{memberWith(onGcu, podOn(onGcu, "b", oldHash))}, []*corev1.Node{labelled, node("b")},
			map[string][]string{"a": {"kube-system/driver=missing"}}},
		{"a node with a NoSchedule taint and no pod is left out", []memberAndPods{memberWith(driver)}, []*corev1.Node{tainted(corev1.TaintEffectNoSchedule)}, map[string][]string{}},
		{"a node with a NoSchedule taint keeps its pod", []memberAndPods{memberWith(driver, podOn(driver, "a", oldHash))}, []*corev1.Node{tainted(corev1.TaintEffectNoSchedule)},
			map[string][]string{"a": {"kube-system/driver=driver-a"}}},
		{"a node with a NoExecute taint is left out though its pod is still there", []memberAndPods{memberWith(driver, podOn(driver, "a", oldHash))}, []*corev1.Node{tainted(corev1.TaintEffectNoExecute)}, map[string][]string{}},
		{"an offline node is not left out for its taints", []memberAndPods{memberWith(driver, podOn(driver, "a", oldHash))}, []*corev1.Node{gone},
			map[string][]string{"a": {"kube-system/driver=driver-a"}}},
		{"a pod on a node that is gone is on no node", []memberAndPods{memberWith(driver, podOn(driver, "b", oldHash))}, []*corev1.Node{node("a")},
			map[string][]string{"a": {"kube-system/driver=missing"}}},
		{"a pod not yet bound is on the node its affinity names", []memberAndPods{memberWith(driver, unbound)}, []*corev1.Node{node("a")},
			map[string][]string{"a": {"kube-system/driver=driver-"}}},
		{"a node that runs only some members has only their pods", []memberAndPods{memberWith(onGcu), memberWith(exporter, podOn(exporter, "b", oldHash))}, []*corev1.Node{labelled, node("b")},
			map[string][]string{"a": {"kube-system/driver=missing", "kube-system/exporter=missing"}, "b": {"kube-system/exporter=exporter-b"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, podsSeen(observed(tt.members, tt.nodes...), tt.nodes)); diff != "" {
				t.Errorf("pods by node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInputOfIsBlocked(t *testing.T) {
	behind := func(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
		ds.Status.ObservedGeneration = 1
		return ds
	}
	strategy, limit := topsv1.AnnotationUpdateStrategy, topsv1.AnnotationMaxUnavailable
	unannotated := daemonSet("driver")
	unannotated.Annotations = nil
	tests := []struct {
		name    string
		members []memberAndPods
		want    *rollout.Blocked
	}{
		{"not at all when settings and targets are known", []memberAndPods{memberWith(daemonSet("driver")), memberWith(daemonSet("exporter"))}, nil},
		{"by settings that are wrong", []memberAndPods{memberWith(annotate(daemonSet("driver"), limit, "0"))},
			&rollout.Blocked{Reason: "InvalidMaxUnavailable", Message: `annotation topsops.enflame.com/max-unavailable is "0": set it to a whole number of nodes of at least 1, or to a percentage from 1% to 100%`}},
		{"by settings of the last member that are wrong", []memberAndPods{memberWith(daemonSet("driver")), memberWith(annotate(daemonSet("exporter"), strategy, "Canary"))},
			&rollout.Blocked{Reason: "InvalidUpdateStrategy", Message: `annotation topsops.enflame.com/update-strategy is "Canary": set it to AdvancedRollingUpdate or OTA, or remove it`}},
		{"by members that disagree", []memberAndPods{memberWith(daemonSet("driver")), memberWith(daemonSet("toolkit")), memberWith(annotate(daemonSet("exporter"), limit, "2"))},
			&rollout.Blocked{Reason: "SettingsDisagree", Message: "DaemonSets kube-system/driver and kube-system/exporter have different upgrade annotations; waiting until those of the GcuResource are on both"}},
		{"by members of which one is annotated already", []memberAndPods{memberWith(unannotated), memberWith(daemonSet("exporter"))},
			&rollout.Blocked{Reason: "SettingsDisagree", Message: "DaemonSets kube-system/driver and kube-system/exporter have different upgrade annotations; waiting until those of the GcuResource are on both"}},
		{"not by different spellings of the same settings", []memberAndPods{memberWith(daemonSet("driver")), memberWith(annotate(daemonSet("exporter"), strategy, "auto"))}, nil},
		{"by a template that was not observed yet", []memberAndPods{memberWith(daemonSet("driver")), memberWith(behind(daemonSet("exporter")))},
			&rollout.Blocked{Reason: "RevisionPending", Message: "the DaemonSet controller has observed generation 1 of kube-system/exporter, not yet 2"}},
		{"by wrong settings before a pending revision", []memberAndPods{memberWith(behind(annotate(daemonSet("driver"), strategy, "")))},
			&rollout.Blocked{Reason: "InvalidUpdateStrategy", Message: `annotation topsops.enflame.com/update-strategy is "": set it to AdvancedRollingUpdate or OTA, or remove it`}},
		{"not by a pending revision that nobody waits for", []memberAndPods{memberWith(behind(unannotated.DeepCopy()))}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputFrom(observed(tt.members, node("a")))
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
	driver, exporter := daemonSet("driver"), daemonSet("exporter")
	at := func(ds *appsv1.DaemonSet, hash string) memberAndPods {
		return memberAndPods{member: member{daemonSet: ds, revisions: revisionsOf(ds, hash)}}
	}
	name := func(members ...memberAndPods) string { return inputFrom(observed(members)).Revision }
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

func TestInputOfHasTheOpenRequests(t *testing.T) {
	driver, exporter, stranger := daemonSet("driver"), daemonSet("exporter"), daemonSet("stranger")
	pod, other := podOn(driver, "a", oldHash), podOn(exporter, "a", oldHash)
	recreated := daemonSet("driver")
	recreated.UID = "uid-earlier"
	later := request("2", driver, podOn(driver, "later", newHash))
	later.RequestTime = ago(0)
	asked := &rollout.Request{PodUID: "uid-driver-a", Time: epoch.Add(-time.Minute)}
	upgrade := func(requests []topsv1.UpgradeRequest, tasks ...topsv1.UpgradeTask) []*topsv1.NodeUpgrade {
		u := nodeUpgrade("a", requests...)
		u.Status.Tasks = tasks
		return []*topsv1.NodeUpgrade{u}
	}
	one := []topsv1.UpgradeRequest{request("1", driver, pod)}
	tests := []struct {
		name     string
		upgrades []*topsv1.NodeUpgrade
		want     []*rollout.Request // of driver, of exporter
	}{
		{"nobody asked", nil, []*rollout.Request{nil, nil}},
		{"a request is for one member", upgrade(one), []*rollout.Request{asked, nil}},
		{"a request for each member", upgrade(append(one, request("2", exporter, other))),
			[]*rollout.Request{asked, {PodUID: "uid-exporter-a", Time: epoch.Add(-time.Minute)}}},
		{"a request that waits is open", upgrade(one, taskIn("1", topsv1.TaskWaiting)), []*rollout.Request{asked, nil}},
		{"a request that runs is open", upgrade(one, taskIn("1", topsv1.TaskRunning)), []*rollout.Request{asked, nil}},
		{"a request that is done is not", upgrade(one, taskIn("1", topsv1.TaskDone)), []*rollout.Request{nil, nil}},
		{"a request that failed is not", upgrade(one, taskIn("1", topsv1.TaskFailed)), []*rollout.Request{nil, nil}},
		{"the task of another request answers nothing", upgrade(one, taskIn("0", topsv1.TaskDone)), []*rollout.Request{asked, nil}},
		{"of two open requests the later holds", upgrade(append(one, later)), []*rollout.Request{{PodUID: "uid-driver-later", Time: epoch}, nil}},
		{"a later request that is answered leaves the earlier open", upgrade(append(one, later), taskIn("2", topsv1.TaskFailed)), []*rollout.Request{asked, nil}},
		{"a request of another node is not of this one", []*topsv1.NodeUpgrade{nodeUpgrade("b", one...)}, []*rollout.Request{nil, nil}},
		{"a request for an earlier DaemonSet of the name is not for this one", upgrade([]topsv1.UpgradeRequest{request("1", recreated, pod)}), []*rollout.Request{nil, nil}},
		{"a request for another group is not for this one", upgrade([]topsv1.UpgradeRequest{request("1", stranger, pod)}), []*rollout.Request{nil, nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			members := []memberAndPods{memberWith(driver, pod), memberWith(exporter, other)}
			o := seen{members: members, nodes: []*corev1.Node{node("a")}, upgrades: tt.upgrades}.observe()
			pods := o.view.fleet.Node("a").Pods
			if diff := cmp.Diff(tt.want, []*rollout.Request{pods[0].Request, pods[1].Request}); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheNodeOfTheOperatorIsKnown(t *testing.T) {
	o := observed([]memberAndPods{memberWith(daemonSet("driver"))})
	o.home = "a"
	for name, want := range map[string]bool{"a": true, "b": false} {
		if n := nodeOf(o, &found{node: node(name)}, "r2", zones{}, epoch); n.Home != want {
			t.Errorf("node %s is the operator's: %t, want %t", name, n.Home, want)
		}
	}
}

func TestAnUpgradeIsLimitedToWhatTheAnnotationSays(t *testing.T) {
	limited := func(value string) (*observation, rollout.Input) {
		var members []memberAndPods
		for _, component := range []string{"driver", "exporter"} {
			ds := componentOf(component)
			ds.Annotations[topsv1.AnnotationUpgradeOnly] = value
			members = append(members, memberWith(ds, podOn(ds, "a", oldHash), podOn(ds, "b", oldHash)))
		}
		o := observed(members, node("a"), node("b"))
		return o, inputFrom(o)
	}
	o, in := limited("nodes=b;components=exporter")
	if in.Blocked != nil || !in.Members[0].LeftOut || in.Members[1].LeftOut {
		t.Errorf("blocked %v, members %+v", in.Blocked, in.Members)
	}
	if !o.view.fleet.Node("a").LeftOut || o.view.fleet.Node("b").LeftOut {
		t.Error("the nodes are not as annotated")
	}
	for _, value := range []string{"components=drvier", "everything"} {
		if _, in := limited(value); in.Blocked == nil || in.Blocked.Reason != "InvalidUpgradeOnly" {
			t.Errorf("%q blocks with %+v", value, in.Blocked)
		}
	}
}
