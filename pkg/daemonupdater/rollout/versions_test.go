package rollout

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// stepwise allows one minor version at a time, and driver 1.6 with toolkit 1.6 only.
func stepwise(t *testing.T) Policy {
	t.Helper()
	p, err := versions.Of(&topsv1.VersionPolicy{
		Steps: []topsv1.VersionStep{{Component: "driver", From: "1.4.x", To: "1.5.x"}, {Component: "driver", From: "1.5.x", To: "1.6.x"}},
		Fit: []topsv1.VersionFit{
			{Component: "driver", Version: "1.6.x", Components: []topsv1.ComponentVersion{{Component: "toolkit", Version: "1.6.x"}}},
			{Component: "driver", Version: "1.6.x", Kernel: ">=5.15.0"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return Policy{Versions: p}
}

// upgradeTo is a group of driver and toolkit, with the versions that they get.
func upgradeTo(driver, toolkit string, policy Policy, nodes ...Node) Input {
	in := inputOf(2, nodes...).withPolicy(policy)
	in.Members = []Member{
		{Key: "kube-system/driver", Target: newHash, Component: "driver", Image: driver, Heavy: true},
		{Key: "kube-system/toolkit", Target: newHash, Component: "toolkit", Image: toolkit, Heavy: true},
	}
	return in
}

// having is a node that has versions of driver and toolkit, both outdated.
func having(name, driver, toolkit string) Node {
	n := nodeOf(name, oldHash, oldHash)
	n.Kernel, n.Pods[0].Image, n.Pods[1].Image = "5.15.0-91-generic", driver, toolkit
	return n
}

func withKernel(n Node, kernel string) Node {
	n.Kernel = kernel
	return n
}

func TestNoNodeGetsVersionsThatThePolicyDoesNotAllow(t *testing.T) {
	p := stepwise(t)
	limited := upgradeTo("1.6.2", "1.6.0", p, having("a", "1.5.0", "1.5.0"))
	limited.Members[1].LeftOut = true
	left := upgradeTo("1.6.2", "1.6.0", p, having("a", "1.4.0", "1.5.0"))
	left.Members[0].LeftOut = true
	ota := upgradeTo("1.6.2", "1.6.0", p, having("a", "1.4.0", "1.5.0"), asking(having("b", "1.4.0", "1.5.0")), asking(having("c", "1.5.0", "1.6.0"))).under(daemonset.OTA)
	waves := upgradeTo("1.6.2", "1.6.0", Policy{Versions: p.Versions, Waves: []Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "yes"})}}},
		having("a", "1.4.0", "1.5.0"), nodeOf("b", newHash, newHash), having("c", "1.5.0", "1.5.0"))
	waves.Nodes[0].Labels, waves.Nodes[1].Labels = map[string]string{"canary": "yes"}, map[string]string{"canary": "yes"}
	pinned := upgradeTo("1.6.2", "1.6.0", p, nodeOf("a", newHash, newHash))
	pinned.Nodes[0].Pods[0].Image, pinned.Nodes[0].Pods[1].Image = "1.6.2", "1.6.0"
	pinned.Ledger.Pins = []Pin{{Node: "a", Member: "kube-system/driver", Revision: oldHash, From: newHash, Failed: true}}
	light := upgradeTo("1.6.2", "1.6.0", p, having("a", "1.4.0", "1.5.0"))
	light.Members[0].Heavy, light.Members[1].Heavy = false, false
	added := upgradeTo("1.6.2", "1.6.0", p, having("a", "1.5.0", "1.6.0"))
	added.Nodes[0].Pods[1].Revision = newHash
	unfit := upgradeTo("1.5.0", "1.2.0", p, having("a", "1.4.0", "1.2.0"))
	unfit.Nodes[0].Pods[1].Revision = newHash
	unfit.Policy.Versions, _ = versions.Of(&topsv1.VersionPolicy{Fit: []topsv1.VersionFit{{Component: "toolkit", Version: ">=1.6.0"}, {Component: "toolkit", Kernel: ">=99.0.0"}}})
	along := upgradeTo("1.5.2", "1.6.0", p, having("a", "1.4.0", "1.5.0"))
	along.Members = append(along.Members, Member{Key: "kube-system/exporter", Target: newHash, Component: "exporter", Image: "latest", ReplacedWithOthers: true, LeftOut: true})
	along.Nodes[0].Pods = append(along.Nodes[0].Pods, Pod{Member: 2, Name: "a-2", UID: "a-2", Revision: oldHash, Image: "1.0.0", Available: true})
	along.Policy.Versions, _ = versions.Of(&topsv1.VersionPolicy{Steps: []topsv1.VersionStep{{Component: "exporter", From: "1.0.0", To: "1.1.0"}}})
	for _, test := range []struct {
		name    string
		in      Input
		want    said
		changes []string
	}{
		{"contract 97: a node at N-1 goes on, one at N-2 waits", upgradeTo("1.6.2", "1.6.0", p, having("a", "1.5.0", "1.5.0"), having("b", "1.4.0", "1.5.0")),
			said{States: statesOf("a", "pending/Preparing", "b", "held/VersionNotAllowed")}, []string{"a:prepare"}},
		{"contract 97: a node that was offline waits when it returns", upgradeTo("1.6.2", "1.6.0", p, offline(having("a", "1.4.0", "1.5.0"))),
			said{States: statesOf("a", "skipped/NodeOffline")}, nil},
		{"contract 97: a kernel that does not fit keeps its node only", upgradeTo("1.6.2", "1.6.0", p, having("a", "1.5.0", "1.5.0"), withKernel(having("b", "1.5.0", "1.5.0"), "4.18.0-348.el8")),
			said{States: statesOf("a", "pending/Preparing", "b", "held/VersionNotAllowed")}, []string{"a:prepare"}},
		{"what does not fit together is not begun", upgradeTo("1.6.2", "1.5.0", p, having("a", "1.5.0", "1.5.0")),
			said{States: statesOf("a", "held/VersionNotAllowed")}, nil},
		{"what the limit leaves out stays as it is, and has to fit", limited, said{States: statesOf("a", "held/VersionNotAllowed")}, nil},
		{"what the limit leaves out is not refused", left, said{States: statesOf("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"under OTA a node is refused before a request too", ota,
			said{States: statesOf("a", "held/VersionNotAllowed", "b", "held/VersionNotAllowed", "c", "pending/Preparing")}, []string{"c:prepare"}},
		{"under OTA what is not requested stays as it is, and has to fit", upgradeTo("1.6.2", "1.6.0", p, asking(having("a", "1.5.0", "1.5.0")), having("b", "1.5.0", "1.5.0")).under(daemonset.OTA),
			said{States: statesOf("a", "held/VersionNotAllowed", "b", "held/AwaitingRequest")}, nil},
		{"waves do not wait for it", waves, said{States: statesOf("a", "held/VersionNotAllowed", "b", "updated/AtTarget", "c", "pending/Preparing")}, []string{"c:prepare"}},
		{"what is prepared is taken back", upgradeTo("1.6.2", "1.6.0", p, prepared(having("a", "1.4.0", "1.5.0"))), said{States: statesOf("a", "held/VersionNotAllowed")}, []string{"a:abort op-a"}},
		{"no pod is deleted without an operation either", light, said{States: statesOf("a", "held/VersionNotAllowed")}, nil},
		{"nor under a slot that was given before", light.slots(slotOf(light.Nodes[0], time.Minute)), said{States: statesOf("a", "held/VersionNotAllowed")}, nil},
		{"a node that is rolled back individually is not refused", pinned, said{States: statesOf("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"what is replaced along with the driver counts, though it is left out", along, said{States: statesOf("a", "held/VersionNotAllowed")}, nil},
		{"what was deployed at once is there for what requires it", added, said{States: statesOf("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"what was deployed at once and does not fit holds nothing that no rule names with it", unfit, said{States: statesOf("a", "pending/Preparing")}, []string{"a:prepare"}},
		{"without a policy every node goes on", upgradeTo("1.6.2", "1.5.0", Policy{}, having("a", "1.4.0", "latest")),
			said{States: statesOf("a", "pending/Preparing")}, []string{"a:prepare"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			decides(t, test.in, test.want, test.changes)
		})
	}
	d := Plan(upgradeTo("1.6.2", "1.6.0", p, having("b", "1.4.0", "1.5.0")))
	v, _ := d.Verdict("b")
	if want := "driver 1.4.0 > 1.6.2: no step allows it (versions.steps); the allowed path is 1.4.0 > a version in 1.5.x such as 1.5.0 > 1.6.2"; v.Message != want {
		t.Errorf("message %q, want %q", v.Message, want)
	}
}

// A component that gets another name has two pods on a node: one that leaves, and one that waits for that.
func TestARenamedComponentHasTheVersionThatLeaves(t *testing.T) {
	renamed := func(had string) Input {
		in := upgradeTo("1.6.2", "1.6.0", stepwise(t), nodeOf("a", newHash, newHash, oldHash))
		in.Members = append(in.Members, Member{Key: "kube-system/former", Target: newHash, Component: "driver", Heavy: true})
		in.Nodes[0].Kernel = "5.15.0"
		pods := in.Nodes[0].Pods
		pods[0].Image, pods[0].RivalRuns, pods[1].Image, pods[2].Image = "1.6.2", true, "1.6.0", had
		return in
	}
	decides(t, renamed("1.4.0"), said{States: statesOf("a", "held/VersionNotAllowed")}, nil)
	decides(t, renamed("1.5.0"), said{States: statesOf("a", "pending/Preparing")}, []string{"a:prepare"})
}

func TestAPreviewSaysWhichNodesGetNoVersion(t *testing.T) {
	out := Preview(upgradeTo("1.6.2", "1.6.0", stepwise(t), having("a", "1.5.0", "1.5.0"), having("b", "1.4.0", "1.5.0")))
	if len(out.Starts) != 1 || len(out.Starts[0].Nodes) != 1 || out.Starts[0].Nodes[0] != "a" {
		t.Errorf("starts %v", out.Starts)
	}
	if len(out.Left) != 1 || out.Left[0].Node != "b" || out.Left[0].Reason != ReasonVersionNotAllowed {
		t.Errorf("left %v", out.Left)
	}
}

// What a previewed change adds counts for what requires it, and has to fit itself.
func TestWhatIsNewOnANodeHasToFit(t *testing.T) {
	driverOnly := func(driver string, toolkit string) Input {
		n := nodeOf("a", oldHash)
		n.Kernel, n.Pods[0].Image, n.New = "5.15.0", "1.5.0", []versions.Component{{Name: "toolkit", Gets: toolkit}}
		in := upgradeTo(driver, "", stepwise(t), n)
		in.Members = in.Members[:1]
		return in
	}
	for _, test := range []struct {
		name            string
		in              Input
		refused, misfit bool
	}{
		{"the driver has what it requires", driverOnly("1.6.0", "1.6.0"), false, false},
		{"what is new is too old", driverOnly("1.6.0", "1.2.0"), true, true},
		{"no step is about it", driverOnly("1.7.0", "1.6.0"), true, false},
	} {
		node := &test.in.Nodes[0]
		if refused, misfit := len(Refusals(&test.in, node)) > 0, len(RefusalsOfNew(&test.in, node)) > 0; refused != test.refused || misfit != test.misfit {
			t.Errorf("%s: refused is %t, unfit %t", test.name, refused, misfit)
		}
	}
}

// backWith is a group in which node a is rolled back individually to driver 1.5.0, with a toolkit that the rules do not allow there.
func backWith(t *testing.T, rules topsv1.VersionPolicy, a Node) Input {
	t.Helper()
	p, err := versions.Of(&rules)
	if err != nil {
		t.Fatal(err)
	}
	in := upgradeTo("1.6.2", "1.6.0", Policy{Versions: p}, a).backHeavy("a")
	in.Nodes[0].Pods[0].Revision, in.Members[0].Earlier = newHash, map[string]string{oldHash: "1.5.0"}
	return in
}

func TestANodeGoesBackThoughAnotherComponentMayNotGetItsVersion(t *testing.T) {
	steps := topsv1.VersionPolicy{Steps: []topsv1.VersionStep{{Component: "toolkit", From: "1.5.x", To: "1.6.x"}}}
	light := backWith(t, steps, broken(having("a", "1.6.2", "1.4.0")))
	light.Members[0].Heavy, light.Members[1].Heavy = false, false
	decides(t, light, said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}, nil)
	light.Nodes[0].Pods[0].Revision, light.Nodes[0].Pods[0].Available = oldHash, true
	decides(t, light, said{States: statesOf("a", "held/VersionNotAllowed")}, nil)
	kept := withJob(having("a", "1.5.0", "1.4.0"), &Operation{ID: "op-a", Ours: true, Granted: true, KeptCordoned: true, Targets: map[string]string{"kube-system/driver": oldHash}})
	out := backWith(t, steps, kept)
	out.Nodes[0].Pods[0].Revision = oldHash
	d := Plan(out)
	if len(d.Started) != 1 {
		t.Fatalf("started %v: the node is back, and stays out of service", d.Started)
	}
	if members := d.Ledger.Slots[0].Members; !slices.Equal(members, []string{"kube-system/driver"}) {
		t.Errorf("members %v: the toolkit is not allowed", members)
	}
}

func TestWhatGoesBackCountsWithTheVersionThatItGoesBackTo(t *testing.T) {
	fit := topsv1.VersionPolicy{Fit: []topsv1.VersionFit{{Component: "toolkit", Version: ">=1.6.0", Components: []topsv1.ComponentVersion{{Component: "driver", Version: ">=1.6.0"}}}}}
	for _, n := range []Node{having("a", "1.6.2", "1.5.0"), missing(having("a", "", "1.5.0"))} {
		in := backWith(t, fit, n)
		f := NewFleet(&in)
		if a := f.Node("a"); len(Refusals(&in, a)) == 0 || ToReplace(&in, a, &a.Pods[1]) {
			t.Errorf("toolkit 1.6.0 is replaced beside driver 1.5.0: %+v", a.Pods)
		}
	}
}
