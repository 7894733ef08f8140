package observed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// podsSeen returns, per node, the pods that the plan will see, and of which member.
func podsSeen(o *world, nodes []*corev1.Node) map[string][]string {
	seen, in := map[string][]string{}, inputFrom(o)
	for _, node := range nodes {
		n := o.fleet.Node(node.Name)
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
	driver, exporter := fixture.DaemonSet("driver"), fixture.DaemonSet("exporter")
	onGcu := fixture.DaemonSet("driver")
	onGcu.Spec.Template.Spec.NodeSelector = map[string]string{"gcu": "true"}
	labeled := fixture.Node("a")
	labeled.Labels["gcu"] = "true"
	tainted := func(effect corev1.TaintEffect) *corev1.Node {
		n := fixture.Node("a")
		n.Spec.Taints = []corev1.Taint{{Key: "team", Effect: effect}}
		return n
	}
	gone := fixture.Offline(fixture.Node("a"))
	gone.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	unbound := fixture.PodOn(driver, "", fixture.NewHash)
	unbound.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}}}
	tests := []struct {
		name    string
		members []memberAndPods
		nodes   []*corev1.Node
		want    map[string][]string
	}{
		{"a node without its pod is one with a missing pod", []memberAndPods{memberWith(driver)}, []*corev1.Node{fixture.Node("a")},
			map[string][]string{"a": {"kube-system/driver=missing"}}},
		{"a node the selector leaves out is left out", []memberAndPods{memberWith(onGcu, fixture.PodOn(onGcu, "b", fixture.OldHash))}, []*corev1.Node{labeled, fixture.Node("b")},
			map[string][]string{"a": {"kube-system/driver=missing"}}},
		{"a node with a NoSchedule taint and no pod is left out", []memberAndPods{memberWith(driver)}, []*corev1.Node{tainted(corev1.TaintEffectNoSchedule)}, map[string][]string{}},
		{"a node with a NoSchedule taint keeps its pod", []memberAndPods{memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash))}, []*corev1.Node{tainted(corev1.TaintEffectNoSchedule)},
			map[string][]string{"a": {"kube-system/driver=driver-a"}}},
		{"a node with a NoExecute taint is left out though its pod is still there", []memberAndPods{memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash))}, []*corev1.Node{tainted(corev1.TaintEffectNoExecute)}, map[string][]string{}},
		{"an offline node is not left out for its taints", []memberAndPods{memberWith(driver, fixture.PodOn(driver, "a", fixture.OldHash))}, []*corev1.Node{gone},
			map[string][]string{"a": {"kube-system/driver=driver-a"}}},
		{"a pod on a node that is gone is on no node", []memberAndPods{memberWith(driver, fixture.PodOn(driver, "b", fixture.OldHash))}, []*corev1.Node{fixture.Node("a")},
			map[string][]string{"a": {"kube-system/driver=missing"}}},
		{"a pod not yet bound is on the node its affinity names", []memberAndPods{memberWith(driver, unbound)}, []*corev1.Node{fixture.Node("a")},
			map[string][]string{"a": {"kube-system/driver=driver-"}}},
		{"a node that runs only some members has only their pods", []memberAndPods{memberWith(onGcu), memberWith(exporter, fixture.PodOn(exporter, "b", fixture.OldHash))}, []*corev1.Node{labeled, fixture.Node("b")},
			map[string][]string{"a": {"kube-system/driver=missing", "kube-system/exporter=missing"}, "b": {"kube-system/exporter=exporter-b"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, podsSeen(worldOf(tt.members, tt.nodes...), tt.nodes)); diff != "" {
				t.Errorf("pods by node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheNodeOfTheOperatorIsKnown(t *testing.T) {
	o := worldOf([]memberAndPods{memberWith(fixture.DaemonSet("driver"))})
	o.OperatorNode = "a"
	for name, want := range map[string]bool{"a": true, "b": false} {
		SetNode(o.State, name, fixture.Node(name), nil)
		if n := o.RolloutNode(name, "r2", Zones{}, fixture.Epoch); n.HostsOperator != want {
			t.Errorf("node %s is the operator's: %t, want %t", name, n.HostsOperator, want)
		}
	}
}

// TestTheCacheKeyChangesWithAllThatFactsOfNodesDependOn: otherwise a kept fleet would use
// outdated facts.
func TestTheCacheKeyChangesWithAllThatFactsOfNodesDependOn(t *testing.T) {
	fresh := func() (*world, *rollout.Input) {
		o := worldOf([]memberAndPods{memberWith(fixture.DaemonSet("a"))})
		o.Policy = &topsv1.UpgradePolicy{}
		o.Policy.UID = "uid-policy"
		in := inputFrom(o)
		return o, &in
	}
	same, in := fresh()
	before := same.CacheKey(in)
	if o, in := fresh(); o.CacheKey(in) != before {
		t.Errorf("the key of the same is %q, was %q", o.CacheKey(in), before)
	}
	tests := []struct {
		name   string
		change func(*world, *rollout.Input)
	}{
		{"another DaemonSet of the same name", func(o *world, _ *rollout.Input) { o.Members[0].DaemonSet.UID = "other" }},
		{"an edit that makes no revision, such as minReadySeconds", func(o *world, _ *rollout.Input) { o.Members[0].DaemonSet.Generation++ }},
		{"another target", func(_ *world, in *rollout.Input) { in.Members[0].Target = "newer" }},
		{"another strategy", func(_ *world, in *rollout.Input) { in.Settings.Strategy = daemonset.OTA }},
		{"a reason for touching nothing", func(_ *world, in *rollout.Input) { in.Blocked = &rollout.Blocked{} }},
		{"an edit of the policy", func(o *world, _ *rollout.Input) { o.Policy.Spec.ReturnedSeconds = new(int32) }},
		{"a policy that was recreated", func(o *world, _ *rollout.Input) { o.Policy.UID = "other" }},
		{"no policy", func(o *world, _ *rollout.Input) { o.Policy = nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, in := fresh()
			tt.change(o, in)
			if o.CacheKey(in) == before {
				t.Errorf("the key is still %q", before)
			}
		})
	}
}
