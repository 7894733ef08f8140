package observed

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// driverSteps allows the driver to go from 1.5 to 1.6, on nodes with a label and a kernel.
func driverSteps() *topsv1.UpgradePolicy {
	return fixture.PolicyWith(topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{
		Steps: []topsv1.VersionStep{{Component: "driver", From: "1.5.x", To: "1.6.x"}},
		Fit: []topsv1.VersionFit{{Component: "driver", Kernel: ">=5.15.0",
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: "z"}}}},
	}})
}

// driverOn is a group that upgrades the driver to 1.6.2 on node a, which has another version.
func driverOn(policy *topsv1.UpgradePolicy, had string, change func(*corev1.Node)) (*world, rollout.Verdict) {
	driver := fixture.UnderPolicy(fixture.ComponentOf("driver"))
	driver.Spec.Template.Spec.Containers[0].Image = "registry.example/driver:1.6.2"
	pod := fixture.PodOn(driver, "a", fixture.OldHash)
	pod.Spec.Containers = []corev1.Container{{Image: "registry.example/driver:" + had}}
	node := fixture.Node("a")
	node.Status.NodeInfo.KernelVersion = "5.15.0-91-generic"
	change(node)
	w := seen{members: []memberAndPods{memberWith(driver, pod)}, nodes: []*corev1.Node{node}, policy: policy}.observe()
	d := w.fleet.Plan(inputFrom(w))
	v, _ := d.Verdict("a")
	return w, v
}

func TestVersionsAreThoseOfImagesAndNodes(t *testing.T) {
	as := func(*corev1.Node) {}
	for _, test := range []struct {
		name   string
		policy *topsv1.UpgradePolicy
		had    string
		change func(*corev1.Node)
		want   rollout.Reason
	}{
		{"contract 97: the version of the pod on the node may be followed by the new one", driverSteps(), "1.5.0", as, rollout.ReasonPreparing},
		{"contract 97: it may not", driverSteps(), "1.4.0", as, rollout.ReasonVersionNotAllowed},
		{"contract 97: the kernel of the node does not fit", driverSteps(), "1.5.0", func(n *corev1.Node) { n.Status.NodeInfo.KernelVersion = "4.18.0" }, rollout.ReasonVersionNotAllowed},
		{"contract 97: its labels do not fit", driverSteps(), "1.5.0", func(n *corev1.Node) { n.Labels = nil }, rollout.ReasonVersionNotAllowed},
		{"a policy without versions allows all", fixture.PolicyWith(topsv1.UpgradePolicySpec{}), "1.4.0", as, rollout.ReasonPreparing},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, v := driverOn(test.policy, test.had, test.change); v.Reason != test.want {
				t.Errorf("verdict %+v, want %s", v, test.want)
			}
		})
	}
}

func TestAnAutomaticRollbackMayLeadToAnyVersion(t *testing.T) {
	w, v := driverOn(driverSteps(), "1.4.0", func(*corev1.Node) {})
	key := w.CacheKey(&rollout.Input{Members: inputFrom(w).Members, Policy: inputFrom(w).Policy})
	if v.Reason != rollout.ReasonVersionNotAllowed {
		t.Fatalf("verdict %+v before the rollback", v)
	}
	w.Rollout.Status.Rollback = &topsv1.RolloutRollback{RejectedRevision: "fleet-2"}
	fixture.Annotate(w.Members[0].DaemonSet, topsv1.AnnotationRejectedRevision, "fleet-2")
	in := inputFrom(w)
	if in.Policy.Versions != nil {
		t.Error("the versions of a rollback are checked")
	}
	if w.CacheKey(&in) == key {
		t.Error("nodes are kept that were judged by the versions of the policy")
	}
}

// A node that is rolled back individually, and is out of service, gets nothing with it that does not fit beside what it goes back to.
func TestAnOperationThatBringsANodeBackWithholdsWhatDoesNotFit(t *testing.T) {
	driver, toolkit := fixture.UnderPolicy(fixture.ComponentOf("driver")), fixture.UnderPolicy(fixture.ComponentOf("toolkit"))
	driver.Spec.Template.Spec.Containers, toolkit.Spec.Template.Spec.Containers = container("r/driver:1.6.2"), container("r/toolkit:1.6.0")
	pods := []*corev1.Pod{fixture.PodOn(driver, "a", fixture.NewHash), fixture.PodOn(toolkit, "a", fixture.OldHash)}
	pods[0].Spec.Containers, pods[1].Spec.Containers = container("r/driver:1.6.2"), container("r/toolkit:1.5.0")
	members := []memberAndPods{memberWith(driver, pods[0]), memberWith(toolkit, pods[1])}
	members[0].Revisions[0].Data = templateWith("r/driver:1.5.0")
	policy := fixture.PolicyWith(topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{Fit: []topsv1.VersionFit{
		{Component: "toolkit", Version: ">=1.6.0", Components: []topsv1.ComponentVersion{{Component: "driver", Version: ">=1.6.0"}}}}}})
	w := seen{members: members, nodes: []*corev1.Node{fixture.Node("a")}, policy: policy}.observe()
	for _, back := range []bool{false, true} {
		if back {
			w.Rollout.Status.Pinned = []topsv1.NodePin{{Node: "a", DaemonSet: w.Members[0].Key(), Hash: fixture.OldHash, From: fixture.NewHash}}
		}
		in := inputFrom(w)
		n := *w.fleet.Node("a")
		n.Operation = &rollout.Operation{ID: "before", Ours: true, Granted: true, KeptCordoned: true}
		in.Nodes = []rollout.Node{n}
		plan := w.OperationPlan(&in, &testBook, rollout.NewFleet(&in).Node("a"))
		if replaced := slices.Contains(plan.Changed, "toolkit"); replaced == back || !slices.Contains(plan.Changed, "driver") {
			t.Errorf("back is %t: the operation changes %v", back, plan.Changed)
		}
	}
}
