package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// inBatch places a node in a batch of a plan.
func inBatch(n Node, batch int) Node {
	n.Batch = batch
	return n
}

// planned is a rollout of up to ten nodes at once, with a plan of the given batches; those with a
// ! at the end await approval.
func planned(batches []string, nodes ...Node) Input {
	in := inputOf(10, nodes...)
	in.Policy.Plan, in.Policy.PlanVersion = "plan", "plan/1"
	for _, name := range batches {
		b := Batch{Name: name}
		if name[len(name)-1] == '!' {
			b = Batch{Name: name[:len(name)-1], Manual: true}
		}
		in.Policy.Batches = append(in.Policy.Batches, b)
	}
	return in
}

// run follows a rollout in which nothing fails, and returns which nodes start together.
func run(in Input) (starts [][]string, left []Verdict) {
	out := Preview(in)
	for _, s := range out.Starts {
		slices.Sort(s.Nodes)
		starts = append(starts, s.Nodes)
	}
	return starts, out.Left
}

// Under OTA, a person may ask for a component that the plan leaves out.
func TestABatchIsNotCompleteWhileAComponentOfItAwaitsItsRequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		other string
		want  map[string]string
		done  bool
	}{
		{"of a node that asked for another one", oldHash, statesOf("a", "held/AwaitingRequest", "b", "held/AwaitingRequest"), false},
		{"unless it has it already", newHash, statesOf("a", "held/LeftOut", "b", "held/AwaitingRequest"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := asking(nodeOf("a", oldHash, tt.other))
			a.Pods[0].LeftOut = true
			in := planned([]string{"1", "2"}, inBatch(a, 0), inBatch(nodeOf("b", newHash, oldHash), 1))
			in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
			in.Settings.Strategy = daemonset.OTA
			d := Plan(in)
			if diff := cmp.Diff(tt.want, say(d).States); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if done := !d.Ledger.Waves[0].Completed.IsZero(); done != tt.done {
				t.Errorf("the batch is complete: %v, want %v", done, tt.done)
			}
		})
	}
}

func TestABatchIsNotCompleteWhileAPodOfItIsNotAvailable(t *testing.T) {
	for name, pod := range map[string]func(*Pod){
		"which terminates":    func(p *Pod) { p.Terminating = true },
		"which is missing":    func(p *Pod) { *p = Pod{Member: p.Member} },
		"which does not work": func(p *Pod) { p.Available = false },
	} {
		t.Run(name, func(t *testing.T) {
			a := nodeOf("a", oldHash, newHash) // the plan leaves the first out
			a.Pods[0].LeftOut = true
			pod(&a.Pods[1])
			in := planned([]string{"1", "2"}, inBatch(a, 0), inBatch(nodeOf("b", newHash, oldHash), 1))
			in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
			d := Plan(in)
			if diff := cmp.Diff(statesOf("a", "pending/Unavailable", "b", "held/WaveNotReached"), say(d).States); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if !d.Ledger.Waves[0].Completed.IsZero() {
				t.Error("the batch is complete")
			}
			if v, _ := d.Verdict("a"); !strings.Contains(v.Message, "kube-system/b") {
				t.Errorf("it waits as: %s", v.Message)
			}
		})
	}
}

// S15: what is left to do on a node is left out, and that it failed at what the batch has is not forgotten.
func TestABatchIsNotCompleteWhileANodeOfItHasFailed(t *testing.T) {
	for name, failed := range map[string]bool{"has failed": true, "has not failed": false} {
		t.Run(name, func(t *testing.T) {
			a := nodeOf("a", oldHash, newHash)
			a.Pods[0].LeftOut = true
			in := planned([]string{"1", "2"}, inBatch(a, 0), inBatch(nodeOf("b", newHash, oldHash), 1))
			in.Members = append(in.Members, Member{Key: "kube-system/b", Target: newHash})
			if failed {
				in.Ledger.Failures = []Failure{{Node: "a", UID: "uid-a", Reason: ReasonOperationAborted, Since: in.Now}}
			}
			if done := !Plan(in).Ledger.Waves[0].Completed.IsZero(); done == failed {
				t.Errorf("the batch is complete: %v", done)
			}
		})
	}
}

func TestBatchesOfAPlanFollowEachOther(t *testing.T) {
	a, b, c, d := nodeOf("a", oldHash), nodeOf("b", oldHash), nodeOf("c", oldHash), nodeOf("d", oldHash)
	tests := []struct {
		name string
		in   Input
		want [][]string
		left []Reason
	}{
		{"in the order of the plan", planned([]string{"1", "2"}, inBatch(a, 1), inBatch(b, 0), inBatch(c, 0)), [][]string{{"b", "c"}, {"a"}}, nil},
		{"a node that is in none waits", planned([]string{"1"}, inBatch(a, 0), leftOutOf(inBatch(b, 1))), [][]string{{"a"}}, []Reason{ReasonLeftOut}},
		{"an offline node does not hold up the next batch", planned([]string{"1", "2"}, inBatch(offline(a), 0), inBatch(b, 0), inBatch(c, 1)),
			[][]string{{"b"}, {"c"}}, []Reason{ReasonNodeOffline}},
		{"nor does a first batch of offline nodes only", planned([]string{"1", "2", "3"}, inBatch(offline(a), 0), inBatch(offline(b), 1), inBatch(c, 2)),
			[][]string{{"c"}}, []Reason{ReasonNodeOffline, ReasonNodeOffline}},
		{"nor one of nodes that may not be upgraded", planned([]string{"1", "2"}, inBatch(unfit(nodeOf("a", oldHash)), 0), inBatch(b, 1)), [][]string{{"b"}}, []Reason{ReasonNoSuccessor}},
		{"but a wave is not passed without a proof", underWaves(planned([]string{"1", "2"}, inBatch(canary(offline(a)), 0), inBatch(b, 1)), false, 0),
			nil, []Reason{ReasonNodeOffline, ReasonWaveNotReached}},
		{"a batch without an approval waits, and what follows it", planned([]string{"1", "2!", "3"}, inBatch(a, 0), inBatch(b, 1), inBatch(c, 2)),
			[][]string{{"a"}}, []Reason{ReasonAwaitingApproval, ReasonAwaitingApproval}},
		{"a node that does not work is not emptied without a yes", planned([]string{"1", "2", "3!", "4"}, inBatch(a, 0), inBatch(broken(nodeOf("b", oldHash)), 3), inBatch(c, 2)),
			[][]string{{"a"}}, []Reason{ReasonAwaitingApproval, ReasonAwaitingApproval}},
		{"also if it uses up the budget", func() Input {
			in := planned([]string{"1", "2!"}, inBatch(a, 0), inBatch(broken(nodeOf("b", oldHash)), 1))
			in.Settings.MaxUnavailable.IntVal = 1
			return in
		}(), nil, []Reason{ReasonBudgetExhausted, ReasonAwaitingApproval}},
		{"and goes first while the batches before it only have to be done", planned([]string{"1", "2", "3!"}, inBatch(a, 0), inBatch(broken(nodeOf("b", oldHash)), 1), inBatch(c, 2)),
			[][]string{{"a", "b"}}, []Reason{ReasonAwaitingApproval}},
		{"an empty batch asks for no approval", planned([]string{"1", "2!", "3"}, inBatch(a, 0), inBatch(c, 2)), [][]string{{"a"}, {"c"}}, nil},
		{"a budget holds within a batch", func() Input {
			in := planned([]string{"1", "2"}, inBatch(a, 0), inBatch(b, 0), inBatch(c, 0), inBatch(d, 1))
			in.Settings.MaxUnavailable.IntVal = 2
			return in
		}(), [][]string{{"a", "c"}, {"b"}, {"d"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, left := run(tt.in)
			if len(tt.want) != len(got) || len(got) > 0 && !cmp.Equal(tt.want[len(tt.want)-1], got[len(got)-1]) {
				t.Errorf("started %v, want %v", got, tt.want)
			}
			var reasons []Reason
			for _, v := range left {
				reasons = append(reasons, v.Reason)
			}
			if diff := cmp.Diff(tt.left, reasons); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWaveThatIsNotProvenIsNamed(t *testing.T) {
	off, b := func() Node { return canary(offline(nodeOf("a", oldHash))) }, nodeOf("b", oldHash)
	const unproven = "waits until a node of wave canary is updated: all of them are offline or cannot be upgraded now; bring one back, or change the waves of the policy"
	for name, tt := range map[string]struct {
		in   Input
		want string
	}{
		"under a plan":                    {underWaves(planned([]string{"1"}, inBatch(off(), 0), inBatch(b, 0)), false, 0), unproven},
		"with a node that is in no batch": {underWaves(planned([]string{"1"}, inBatch(off(), 0), leftOutOf(inBatch(canary(nodeOf("c", oldHash)), 1)), inBatch(b, 0)), false, 0), unproven},
		"without a plan":                  {underWaves(inputOf(3, off(), b), false, 0), unproven},
		"with a new pod that never ran":   {underWaves(inputOf(3, canary(withPod(offline(nodeOf("a", newHash)), func(p *Pod) { p.Available, p.Created = false, epoch })), b), false, 0), unproven},
		"with a node that is not fit":     {underWaves(inputOf(3, canary(unfit(nodeOf("a", oldHash))), b), false, 0), unproven},
		"unless it goes on":               {underWaves(inputOf(3, canary(nodeOf("a", oldHash)), b), false, 0), "waits for wave canary: 0 of 1 nodes are updated"},
	} {
		if v, _ := new(Plan(tt.in)).Verdict("b"); v.Message != tt.want {
			t.Errorf("%s b waits as: %s", name, v.Message)
		}
	}
}

// While the control plane reaches no node, no batch is complete: they are in order when the nodes are back.
// A task may be what wakes them.
func TestABatchOfOfflineNodesIsNotPassedBeforeTheGlobalTasksAreDone(t *testing.T) {
	in := planned([]string{"1", "2"}, inBatch(offline(nodeOf("a", oldHash)), 0), inBatch(nodeOf("b", oldHash), 1))
	in.Beforehand = &Blocked{Reason: "AwaitingGlobalTask"}
	if d := Plan(in); !d.Ledger.Waves[0].Completed.IsZero() {
		t.Error("the batch is complete")
	}
	in.Beforehand = nil
	if d := Plan(in); d.Ledger.Waves[0].Completed.IsZero() {
		t.Error("the batch is not complete")
	}
}

func TestNoBatchIsCompleteWhileNoNodeIsReached(t *testing.T) {
	justOffline := offline(nodeOf("b", oldHash))
	justOffline.ReadySince = epoch.Add(-time.Second)
	for name, b := range map[string]Node{"for long": offline(nodeOf("b", oldHash)), "since a moment": justOffline} {
		in := planned([]string{"1", "2"}, inBatch(offline(nodeOf("a", oldHash)), 0), inBatch(b, 1))
		in.Ledger = Plan(in).Ledger
		in.Nodes = []Node{inBatch(nodeOf("a", oldHash), 0), inBatch(nodeOf("b", oldHash), 1)}
		if d := Plan(in); !cmp.Equal(d.Started, []string{"a"}) {
			t.Errorf("%s: %v are started when all are back, want batch 1", name, d.Started)
		}
	}
}

// Nor is it while a node is done that went offline with the others.
func TestNoBatchIsCompleteWhileNoDoneNodeIsReached(t *testing.T) {
	for name, x := range map[string]Node{"before": nodeOf("x", newHash), "by us": nodeOf("x", newHash)} {
		all := func(is func(Node) Node) []Node {
			return []Node{inBatch(is(x), 0), inBatch(is(nodeOf("a", oldHash)), 1), inBatch(is(nodeOf("b", oldHash)), 2)}
		}
		in := planned([]string{"1", "2", "3"}, all(offline)...)
		if name == "by us" {
			in.Nodes, in.Settings.Paused = all(func(n Node) Node { return n }), true
			in.Ledger, in.Settings.Paused = Plan(in).Ledger, false
			in.Nodes = all(offline)
		}
		in.Ledger = Plan(in).Ledger
		in.Nodes = all(func(n Node) Node { return n })
		if d := Plan(in); !cmp.Equal(d.Started, []string{"a"}) {
			t.Errorf("done %s: %v are started when all are back, want batch 2", name, d.Started)
		}
	}
}

func TestABatchIsNotCompleteWhileANodeOfItIsLost(t *testing.T) {
	a, b, c := offline(nodeOf("a", newHash)), nodeOf("b", newHash), nodeOf("c", oldHash)
	lost := func(a Node) Input {
		return planned([]string{"1", "2"}, a, inBatch(b, 0), inBatch(c, 1)).slots(slotOf(a, time.Minute))
	}
	failed := func(a Node) Input {
		in := lost(a)
		in.Ledger.Slots, in.Ledger.Failures = nil, []Failure{{Node: "a", UID: "uid-a", Reason: ReasonNodeLost}}
		return in
	}
	for name, tt := range map[string]struct {
		in   Input
		want []string
	}{
		"with its slot":            {lost(inBatch(a, 0)), nil},
		"and has failed":           {failed(inBatch(a, 0)), nil},
		"unless the plan omits it": {failed(leftOutOf(inBatch(a, 2))), []string{"c"}},
	} {
		d := Plan(tt.in)
		if diff := cmp.Diff(tt.want, d.Started); diff != "" {
			t.Errorf("%s: started (-want +got):\n%s", name, diff)
		}
		if got := d.Ledger.Waves[0].Updated; got != 1 {
			t.Errorf("%s: %d nodes of the batch are updated, want b", name, got)
		}
	}
}

// underWaves adds a wave of the nodes with a label, and what is to be approved and soaked of it.
func underWaves(in Input, manual bool, soak time.Duration) Input {
	in.Policy.Waves = []Wave{{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"wave": "canary"}), Manual: manual, Soak: soak}}
	return in
}

func unfit(n Node) Node {
	n.Pods[0].NoSuccessor = "a taint"
	return n
}

func canary(n Node) Node {
	n.Labels = map[string]string{"wave": "canary"}
	return n
}

// S15: a plan opens no gate of the policy.
func TestTheWavesOfAPolicyHoldForAPlan(t *testing.T) {
	a, b, c := inBatch(canary(nodeOf("a", oldHash)), 1), inBatch(nodeOf("b", oldHash), 0), inBatch(canary(nodeOf("c", oldHash)), 0)
	in := underWaves(planned([]string{"1", "2"}, a, b, c), false, 0)
	if got, _ := run(in); !cmp.Equal(got, [][]string{{"c"}, {"a"}, {"b"}}) {
		t.Errorf("started %v; want the batches of the wave, then the rest", got)
	}
	if got, _ := run(underWaves(planned([]string{"1", "2"}, a, b, c), true, 0)); got != nil {
		t.Errorf("started %v without the approval of the wave", got)
	}
	in = underWaves(planned([]string{"1", "2!"}, a, b, c), true, 0)
	in.Policy.Approved = map[string]bool{"canary": true}
	if got, _ := run(in); !cmp.Equal(got, [][]string{{"c"}}) {
		t.Errorf("started %v with the approval of the wave, and not of the batch", got)
	}
	in.Policy.Approved[BatchApproval("canary/plan/2", "plan=plan/1")] = true
	if got, _ := run(in); !cmp.Equal(got, [][]string{{"c"}, {"a"}, {"b"}}) {
		t.Errorf("started %v with both approvals", got)
	}
}

func TestAWaveSoaksAfterItsLastBatch(t *testing.T) {
	a, b, c := inBatch(canary(nodeOf("a", oldHash)), 0), inBatch(canary(nodeOf("b", oldHash)), 1), inBatch(nodeOf("c", oldHash), 1)
	in := underWaves(planned([]string{"1", "2"}, a, b, c, leftOutOf(inBatch(canary(nodeOf("d", oldHash)), 2))), false, time.Hour)
	in.Ledger.Usual = time.Minute
	out := Preview(in)
	var after []time.Duration
	for _, s := range out.Starts {
		after = append(after, s.After)
	}
	if diff := cmp.Diff([]time.Duration{0, time.Minute, time.Hour + 2*time.Minute}, after); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

// The part of a wave that is in no batch is empty as a rule, and starts the soak.
func TestAWaveSoaksOnceUnderAPlan(t *testing.T) {
	a, b := inBatch(canary(nodeOf("a", newHash)), 0), inBatch(nodeOf("b", oldHash), 0)
	joined := leftOutOf(inBatch(canary(missing(nodeOf("c", newHash))), 1))
	for name, tt := range map[string]struct {
		first, then []Node
		want        []string
	}{
		"when a node joins that is in no batch":    {[]Node{a, b}, []Node{a, b, joined}, []string{"b"}},
		"but after a batch if it had no nodes":     {[]Node{b}, []Node{a, b}, nil},
		"when the nodes of its batch are gone":     {[]Node{a, b}, []Node{b}, []string{"b"}},
		"and not when no node is in one, or comes": {[]Node{b}, []Node{b}, []string{"b"}},
	} {
		in := underWaves(planned([]string{"1"}, tt.first...), false, time.Hour)
		in.Ledger = Plan(in).Ledger
		in.Nodes, in.Now, in.Ledger.Decided = tt.then, epoch.Add(time.Hour), time.Time{}
		if diff := cmp.Diff(tt.want, Plan(in).Started); diff != "" {
			t.Errorf("%s: started (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheProgressOfBatchesBelongsToThePlan(t *testing.T) {
	a, b := inBatch(nodeOf("a", newHash), 0), inBatch(nodeOf("b", oldHash), 1)
	in := planned([]string{"1", "2"}, a, b)
	in.Ledger = Plan(in).Ledger
	if in.Ledger.Waves[0].Name != "plan/1" || in.Ledger.Waves[0].Completed.IsZero() || in.Ledger.Limit != "plan=plan/1" {
		t.Fatalf("the ledger has %+v", in.Ledger)
	}
	other := planned([]string{"1", "2"}, inBatch(b, 0), inBatch(nodeOf("c", oldHash), 1))
	other.Policy.PlanVersion = "plan/2"
	other.Ledger = in.Ledger
	other.Ledger.Slots = nil
	if d := Plan(other); !cmp.Equal(d.Started, []string{"b"}) {
		t.Errorf("%v are started; want batch 1 of the other plan", d.Started)
	}
}

// A limit beside a plan leaves nodes out for a while: their batches are not complete when it is gone.
func TestABatchIsNotCompleteOnceALimitThatLeftItOutIsGone(t *testing.T) {
	limited := func(n Node) Node { n.LeftOut = true; return n }
	a := func(hash string) Node { return inBatch(nodeOf("a", hash), 0) }
	b, c := inBatch(nodeOf("b", oldHash), 1), inBatch(nodeOf("c", oldHash), 2)
	in := planned([]string{"1", "2!", "3"}, a(newHash), limited(b), limited(c))
	in.Settings.Only = "nodes=a"
	ledger := Plan(in).Ledger
	free := planned([]string{"1", "2!", "3"}, a(newHash), b, c)
	free.Ledger = ledger
	d := Plan(free)
	if len(d.Started) > 0 || !strings.HasPrefix(d.Unapproved, "plan/2@") {
		t.Errorf("%v are started without the limit, %q awaits an approval; want batch 2", d.Started, d.Unapproved)
	}
	approval := d.Unapproved
	if BatchApproval("plan/2", ledger.Limit) != approval {
		t.Errorf("with the limit batch 2 is approved as %q, without it as %q", BatchApproval("plan/2", ledger.Limit), approval)
	}
	free.Policy.Approved = map[string]bool{approval: true}
	if d := Plan(free); !cmp.Equal(d.Started, []string{"b"}) {
		t.Errorf("%v are started; want batch 2 before batch 3", d.Started)
	}
}

// S15: an approval is of a batch of the plan as it was then. What is moved into the batch later awaits another one.
func TestAnApprovalOfABatchIsForThePlanAsItWas(t *testing.T) {
	in := planned([]string{"1!", "2!"}, inBatch(nodeOf("a", newHash), 0), inBatch(nodeOf("b", oldHash), 1))
	approved := Plan(in).Unapproved
	in.Policy.Approved = map[string]bool{approved: true}
	if next := Plan(in).Unapproved; !strings.HasPrefix(approved, "plan/1") || !strings.HasPrefix(next, "plan/2") {
		t.Fatalf("%q is approved, and %q has to be next", approved, next)
	}
	for _, version := range []string{"plan/2", "other uid/1"} {
		edited := planned([]string{"1!", "2!"}, inBatch(nodeOf("a", newHash), 0), inBatch(nodeOf("b", oldHash), 0))
		edited.Policy.Approved, edited.Policy.PlanVersion = in.Policy.Approved, version
		d := Plan(edited)
		if v, _ := d.Verdict("b"); len(d.Started) > 0 || v.Reason != ReasonAwaitingApproval || !strings.Contains(v.Message, "r2/"+d.Unapproved) {
			t.Errorf("with %s, %v are started, b is %s: %s", version, d.Started, v.Reason, v.Message)
		}
		edited.Policy.Approved[d.Unapproved] = true
		if d := Plan(edited); !cmp.Equal(d.Started, []string{"b"}) {
			t.Errorf("with %s approved, %v are started", version, d.Started)
		}
	}
}

// The plan has nothing to do with a node of the first wave that is offline: it holds up none of the plan.
func TestAWaveOfWhichThePlanLeavesAllOutIsPassed(t *testing.T) {
	a := leftOutOf(inBatch(offline(canary(nodeOf("a", oldHash))), 1))
	got, _ := run(underWaves(planned([]string{"1"}, a, inBatch(nodeOf("b", oldHash), 0)), false, 0))
	if diff := cmp.Diff([][]string{{"b"}}, got); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
}

func TestAnApprovalThatIsWantedAheadIsNamed(t *testing.T) {
	in := planned([]string{"1", "2!"}, inBatch(nodeOf("a", oldHash), 0), inBatch(broken(nodeOf("b", oldHash)), 1))
	in.Settings.MaxUnavailable.IntVal = 1
	if got, want := Plan(in).Unapproved, BatchApproval(in.Policy.partName(1), in.Policy.planInForce()); got != want {
		t.Errorf("to be approved is %q, want %q", got, want)
	}
}

// A wave that awaits approval is not waited for if the plan has no node of it.
func TestAllIsReachedWhenTheLastNodesOfThePlanAre(t *testing.T) {
	for name, tt := range map[string]struct {
		last Node
		want bool
	}{
		"which are in the first wave": {leftOutOf(inBatch(nodeOf("c", oldHash), 1)), true},
		"which are not":               {inBatch(nodeOf("c", oldHash), 0), false},
		"which a limit leaves out":    {leftOutOf(inBatch(offline(nodeOf("c", oldHash)), 0)), false},
	} {
		in := underWaves(planned([]string{"1"}, inBatch(canary(nodeOf("a", newHash)), 0), inBatch(canary(offline(nodeOf("b", oldHash))), 0), tt.last), false, 0)
		in.Policy.Waves = append(in.Policy.Waves, Wave{Name: "main", Selector: labels.Everything(), Manual: true})
		if got := Plan(in).AllReached; got != tt.want {
			t.Errorf("%s: all is reached: %v", name, got)
		}
	}
}
