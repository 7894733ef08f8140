package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// pulling gives the first pod of a node images that it lacks, and says how far they are.
func pulling(n Node, p Pull) Node {
	return withPod(n, func(pod *Pod) { pod.Pull = p })
}

func wanting(name string) Node { return pulling(nodeOf(name, oldHash), Pull{State: PullNeeded}) }

func asked(name string) Node {
	return pulling(nodeOf(name, oldHash), Pull{State: PullRequested, Until: epoch.Add(time.Minute)})
}

func pulled(name string) Node { return pulling(nodeOf(name, oldHash), Pull{State: PullReady}) }

func failing(name string) Node {
	return pulling(nodeOf(name, oldHash), Pull{State: PullFailed, Retry: epoch.Add(time.Minute), Message: "no such image"})
}

func leaving(name string) Node { return pulling(nodeOf(name, oldHash), Pull{State: PullByKubelet}) }

// prepullsOf returns the nodes on which a decision has images pulled.
func prepullsOf(d Decision) (names []string) {
	for _, p := range d.Prepulls {
		names = append(names, p.Node)
	}
	return names
}

func TestAnImageIsPulledBeforeANodeLosesItsPod(t *testing.T) {
	many := make([]Node, 0, maxFailedPulls+2)
	for i := range maxFailedPulls {
		many = append(many, failing(fmt.Sprintf("f%02d", i)))
	}
	for _, test := range []struct {
		name string
		in   Input
		want said
		asks []string
	}{
		{"a node with a bad image keeps its pod, and others go on", inputOf(1, failing("a"), pulled("b")),
			said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"}, States: statesOf("a", "pending/PrepullFailed", "b", "in-flight/Replacing")}, nil},
		{"images are asked for on as many nodes as come next", inputOf(1, wanting("a"), wanting("b")),
			said{States: statesOf("a", "pending/Preparing", "b", "pending/Preparing")}, []string{"a"}},
		{"a bad image is not asked for on more nodes than it fails on", inputOf(1, append(slices.Clone(many), wanting("z"), pulled("y"))...),
			said{Started: []string{"y"}, Delete: []string{"y-0"}, Slots: []string{"y"}, States: statesOf("z", "pending/PrepullFailed")}, nil},
		{"on those after them while they start", inputOf(1, pulled("a"), wanting("b"), wanting("c")),
			said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing", "b", "pending/Preparing", "c", "pending/Preparing")}, []string{"c"}},
		{"nobody is asked twice", inputOf(2, asked("a"), wanting("b"), wanting("c")),
			said{States: statesOf("a", "pending/Preparing", "b", "pending/Preparing", "c", "pending/Preparing")}, []string{"c"}},
		{"a node on which it failed makes room for the next", inputOf(1, failing("a"), wanting("b")),
			said{States: statesOf("a", "pending/PrepullFailed", "b", "pending/Preparing")}, []string{"b"}},
		{"a node without an agent that can starts as ever", inputOf(1, leaving("a")),
			said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}, nil},
		{"a node that has lost its pod already starts at once", inputOf(1, broken(wanting("a"))),
			said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"}, States: statesOf("a", "in-flight/Replacing")}, nil},
		{"nothing is asked for while nothing starts", inputOf(1, wanting("a")).paused(),
			said{States: statesOf("a", "held/Paused")}, nil},
		{"nor where the pod is left out", inputOf(1, leftOutOf(wanting("a"))),
			said{States: statesOf("a", "held/LeftOut")}, nil},
		{"the node agents are not all asked for an image that nobody gets", inputOf(5, append(slices.Clone(many), wanting("z"))...),
			said{States: statesOf("z", "pending/PrepullFailed")}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Plan(test.in)
			got := say(d)
			if len(test.in.Nodes) > maxFailedPulls {
				got.States = statesOf("z", got.States["z"])
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.asks, prepullsOf(d)); diff != "" {
				t.Errorf("prepulls (-want +got):\n%s", diff)
			}
		})
	}
}

// paused returns a copy of an input that is paused.
func (in Input) paused() Input {
	in.Settings.Paused = true
	return in
}

func TestNobodyWaitsForImagesForEver(t *testing.T) {
	for _, test := range []struct {
		name  string
		node  Node
		after time.Duration
		want  string
		asks  []string
	}{
		{"before the time is over", asked("a"), 59 * time.Second, "pending/Preparing", nil},
		{"an agent that does not answer is left alone", asked("a"), time.Minute, "in-flight/Replacing", nil},
		{"before it is tried again", failing("a"), 59 * time.Second, "pending/PrepullFailed", nil},
		{"a failed pull is asked for again", failing("a"), time.Minute, "pending/PrepullFailed", []string{"a"}},
		{"a second attempt that is not answered", pulling(nodeOf("a", oldHash), Pull{State: PullFailed, Attempts: 2, Until: epoch.Add(time.Minute)}), time.Minute, "in-flight/Replacing", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := inputOf(1, test.node)
			f := NewFleet(&in)
			d := f.Plan(in)
			if d.Recheck != time.Minute {
				t.Errorf("looks again after %s", d.Recheck)
			}
			in.Now = epoch.Add(test.after)
			d = f.Plan(in)
			if got := say(d).States["a"]; got != test.want {
				t.Errorf("state %s, want %s", got, test.want)
			}
			if diff := cmp.Diff(test.asks, prepullsOf(d)); diff != "" {
				t.Errorf("prepulls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWaveWaitsForANodeThatDoesNotGetItsImages(t *testing.T) {
	canary := Wave{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "yes"})}
	d := Plan(inputOf(2, labeled(failing("a"), "canary", "yes"), pulled("b")).withPolicy(Policy{Waves: []Wave{canary}}))
	want := said{States: statesOf("a", "pending/PrepullFailed", "b", "held/WaveNotReached")}
	if diff := cmp.Diff(want, say(d)); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestTheNodesThatAreNotPrepulledAreCounted(t *testing.T) {
	if got := Plan(inputOf(1, leaving("a"), leaving("b"), pulled("c"), nodeOf("d", newHash))).NotPrepulled; got != 2 {
		t.Errorf("%d nodes", got)
	}
}

func TestAPreviewTakesImagesAsPulled(t *testing.T) {
	if out := Preview(inputOf(1, wanting("a"), failing("b"), asked("c"))); len(out.Left) > 0 || len(out.Starts) != 3 {
		t.Errorf("outlook %+v", out)
	}
}

// 20 nodes that cannot pull an image that others run already must not keep the rest from being asked.
func TestNodesThatCannotPullDoNotStopARolloutThatOthersTake(t *testing.T) {
	nodes := []Node{nodeOf("done-1", newHash), nodeOf("done-2", newHash), wanting("z")}
	for i := range maxFailedPulls {
		nodes = append(nodes, failing(fmt.Sprintf("f%02d", i)))
	}
	if diff := cmp.Diff([]string{"z"}, prepullsOf(Plan(inputOf(5, nodes...)))); diff != "" {
		t.Errorf("prepulls (-want +got):\n%s", diff)
	}
}

// The nodes that were asked first, because they are first in order, take each free turn when they are asked again.
func TestNodesThatCannotPullDoNotTakeEachTurn(t *testing.T) {
	in := inputOf(1, nodeOf("done", newHash))
	for i := range 3 * maxFailedPulls {
		in.Nodes = append(in.Nodes, wanting(fmt.Sprintf("n%02d", i)))
	}
	f := NewFleet(&in)
	asked := map[string]time.Time{} // 20 nodes never get the image, which is about a third; the others would at once
	var pulled []string
	for step := range 4 * 60 * 24 {
		in.Now = epoch.Add(time.Duration(step) * 15 * time.Second)
		for _, name := range prepullsOf(f.Plan(in)) {
			if _, again := asked[name]; !again && len(asked) >= maxFailedPulls {
				pulled = append(pulled, name)
			}
			asked[name] = in.Now
			f.Set(pulling(nodeOf(name, oldHash), Pull{State: PullFailed, Attempts: 1, Retry: in.Now.Add(16 * time.Minute)}), in.Now)
		}
	}
	if len(pulled) == 0 {
		t.Errorf("in a day only %d of %d nodes were asked", len(asked), 3*maxFailedPulls)
	}
}

// The reason of the thousands that wait does not change with each retry of one of the twenty.
func TestTheReasonOfARolloutDoesNotFlap(t *testing.T) {
	in := inputOf(1)
	for i := range maxFailedPulls {
		in.Nodes = append(in.Nodes, failing(fmt.Sprintf("f%02d", i)))
	}
	for i := range 3 * maxFailedPulls {
		in.Nodes = append(in.Nodes, wanting(fmt.Sprintf("z%02d", i)))
	}
	in.Nodes[0].Pods[0].Pull.Retry = epoch.Add(time.Second)
	before := Plan(in).Waiting[0].Reason
	in.Now = epoch.Add(time.Second)
	if after := Plan(in).Waiting[0].Reason; after != before {
		t.Errorf("%s, before %s", after, before)
	}
}

// A heavy node of the group is prepared although light nodes cannot pull.
func TestNodesThatCannotPullDoNotKeepOthersFromAnOperation(t *testing.T) {
	in := inputOf(5)
	in.Members = []Member{{Key: "kube-system/a", Target: newHash}, {Key: "kube-system/driver", Target: newHash, Heavy: true}}
	for i := range maxFailedPulls {
		in.Nodes = append(in.Nodes, pulling(nodeOf(fmt.Sprintf("f%02d", i), oldHash, newHash), Pull{State: PullFailed, Retry: epoch.Add(time.Minute), Message: "no"}))
	}
	in.Nodes = append(in.Nodes, nodeOf("heavy", newHash, oldHash))
	d := Plan(in)
	if len(d.Operations) != 1 {
		t.Errorf("operations %+v, state %s", d.Operations, say(d).States["heavy"])
	}
}

// The node agents are asked for as many nodes as come next, also if they leave the images to the kubelet.
func TestNodesLeftToTheKubeletAreAhead(t *testing.T) {
	x := nodeOf("x", oldHash)
	in := inputOf(1, missing(x), leaving("a"), wanting("b")).slots(slotOf(x, time.Minute))
	if diff := cmp.Diff([]string(nil), prepullsOf(Plan(in))); diff != "" {
		t.Errorf("prepulls (-want +got):\n%s", diff)
	}
}

// As before, with images that are there.
func TestNodesWithImagesAreAhead(t *testing.T) {
	x := nodeOf("x", oldHash)
	in := inputOf(1, missing(x), pulled("a"), wanting("b")).slots(slotOf(x, time.Minute))
	if diff := cmp.Diff([]string(nil), prepullsOf(Plan(in))); diff != "" {
		t.Errorf("prepulls (-want +got):\n%s", diff)
	}
}

// A node with an operation gets its images by it.
func TestANodeWithAnOperationIsNotCountedAsNotPrepulled(t *testing.T) {
	in := inputOf(1, leaving("a"))
	in.Members[0].Heavy = true
	if got := Plan(in).NotPrepulled; got != 0 {
		t.Errorf("%d nodes", got)
	}
}

// Kubelets pulled on as many nodes at once as may be unavailable; images that are pulled first do not make that 20.
func TestALargeBudgetIsUsed(t *testing.T) {
	var nodes []Node
	for i := range 600 {
		nodes = append(nodes, wanting(fmt.Sprintf("n%03d", i)))
	}
	if got := len(prepullsOf(Plan(inputOf(500, nodes...)))); got < 500 {
		t.Errorf("%d nodes are asked, under a budget of 500", got)
	}
}

// A node that is out of service is repaired by an operation, also while 20 others cannot pull.
func TestABrokenNodeIsRepairedWhileOthersCannotPull(t *testing.T) {
	in := inputOf(5)
	in.Members = []Member{{Key: "kube-system/a", Target: newHash}, {Key: "kube-system/driver", Target: newHash, Heavy: true}}
	for i := range maxFailedPulls {
		in.Nodes = append(in.Nodes, pulling(nodeOf(fmt.Sprintf("f%02d", i), oldHash, newHash), Pull{State: PullFailed, Retry: epoch.Add(time.Minute), Message: "no"}))
	}
	broken := nodeOf("broken", newHash, oldHash)
	broken.Pods[1].Available = false
	in.Nodes = append(in.Nodes, broken)
	if d := Plan(in); len(d.Operations) != 1 {
		t.Errorf("operations %+v, state %s", d.Operations, say(d).States["broken"])
	}
}

func TestAFailedPullIsNotTriedAgainWhileNothingStarts(t *testing.T) {
	due := pulling(nodeOf("a", oldHash), Pull{State: PullFailed, Attempts: 5, Retry: epoch})
	if d := Plan(inputOf(1, due)); len(d.Prepulls) != 1 || !d.PrepullKeepsFailing {
		t.Errorf("prepulls %v, lasts %t", d.Prepulls, d.PrepullKeepsFailing)
	}
	if d := Plan(inputOf(1, due).paused()); len(d.Prepulls) != 0 {
		t.Errorf("prepulls %v", d.Prepulls)
	}
	if d := Plan(inputOf(1, failing("a"))); d.PrepullKeepsFailing {
		t.Error("the first failure needs a person")
	}
}

// Nodes without an agent that come later, as workers after the control plane, leave room to ask those that come first.
func TestNodesThatComeLaterTakeNoRoom(t *testing.T) {
	control := wanting("control")
	control.ControlPlane = true
	in := inputOf(1, control, leaving("w1"), leaving("w2"), leaving("w3"), leaving("w4"), leaving("w5")).withPolicy(Policy{ControlPlane: ControlPlaneFirst})
	if diff := cmp.Diff([]string{"control"}, prepullsOf(Plan(in))); diff != "" {
		t.Errorf("prepulls (-want +got):\n%s", diff)
	}
}

// TestNodesBehindAFailedOneWaitForTheBudget: they are not prepared, and would not start if they were. A
// rollout that stands still for a failed node says so.
func TestNodesBehindAFailedOneWaitForTheBudget(t *testing.T) {
	images := []Node{broken(nodeOf("x", newHash)), pulled("a"), wanting("b"), wanting("c")}
	pooled := inputOf(2, images...)
	pooled.Policy.PoolMaxUnavailable = ptr.To(intstr.FromInt32(1))
	for _, tt := range []struct {
		name string
		in   Input
		want Reason
	}{
		{"images", inputOf(1, images...), ReasonBudgetExhausted},
		{"operations", heavyInput(1, broken(heavyNode("x")), prepared(heavyNode("a")), heavyNode("b"), heavyNode("c")), ReasonBudgetExhausted},
		{"images, in a pool", pooled, ReasonPoolExhausted},
	} {
		tt.in.Ledger.Failures = []Failure{{Node: "x", UID: tt.in.Nodes[0].UID, Reason: ReasonProgressDeadlineExceeded, Targets: targetsOf(&tt.in)}}
		d := Plan(tt.in)
		if len(d.Waiting) != 1 || d.Waiting[0].Reason != tt.want || d.Waiting[0].Nodes != 3 {
			t.Errorf("%s: nodes wait for %+v, want all for %s", tt.name, d.Waiting, tt.want)
		}
	}
}
