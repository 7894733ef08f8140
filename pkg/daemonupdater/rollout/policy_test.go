package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func sizedWave(name, size string) Wave {
	return Wave{Name: name, Size: ptr.To(intstr.Parse(size))}
}

func labeled(n Node, key, value string) Node {
	n.Labels = map[string]string{key: value}
	return n
}

// withPolicy returns a copy of an input with a policy.
func (in Input) withPolicy(p Policy) Input {
	in.Policy = p
	return in
}

// passed marks waves as complete since the given time.
func (in Input) passed(ago time.Duration, names ...string) Input {
	for _, name := range names {
		in.Ledger.Waves = append(in.Ledger.Waves, WaveProgress{Name: name, Total: 1, Completed: epoch.Add(-ago)})
	}
	return in
}

func TestPlanWithAPolicy(t *testing.T) {
	a, b, c := nodeOf("a", oldHash), nodeOf("b", oldHash), nodeOf("c", oldHash)
	canary := Wave{Name: "canary", Selector: labels.SelectorFromSet(labels.Set{"canary": "yes"})}
	soaking, manual := canary, Wave{Name: "main", Selector: labels.Everything(), Manual: true}
	soaking.Soak = 10 * time.Minute
	canaryB := labeled(b, "canary", "yes")
	doneB := labeled(nodeOf("b", newHash), "canary", "yes")
	brokenB := func() Node { return labeled(broken(nodeOf("b", newHash)), "canary", "yes") }
	tests := []struct {
		name string
		in   Input
		want said
	}{
		{
			name: "only the first wave starts, though the budget allows more",
			in:   inputOf(3, a, canaryB, c).withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "held/WaveNotReached", "b": "in-flight/Replacing", "c": "held/WaveNotReached"}},
		},
		{
			name: "an unavailable node of a later wave is replaced first, it would use up the budget of all",
			in:   inputOf(1, broken(nodeOf("a", oldHash)), canaryB).withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "pending/BudgetExhausted"}},
		},
		{
			name: "the next wave starts when the one before is complete",
			in:   inputOf(3, a, doneB).withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "updated/AtTarget"}},
		},
		{
			name: "a complete wave soaks",
			in:   inputOf(3, a, doneB).withPolicy(Policy{Waves: []Wave{soaking}}).passed(9*time.Minute, "canary"),
			want: said{States: map[string]string{"a": "held/Soaking", "b": "updated/AtTarget"}},
		},
		{
			name: "after the soak the next wave starts",
			in:   inputOf(3, a, doneB).withPolicy(Policy{Waves: []Wave{soaking}}).passed(10*time.Minute, "canary"),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "updated/AtTarget"}},
		},
		{
			name: "but not while a new pod of the one before is not available",
			in:   inputOf(3, a, brokenB()).withPolicy(Policy{Waves: []Wave{soaking}}).passed(10*time.Minute, "canary"),
			want: said{States: map[string]string{"a": "held/Soaking", "b": "pending/Unavailable"}},
		},
		{
			name: "which the wave after it does not wait for once the soak was over",
			in: func() Input {
				in := inputOf(3, a, brokenB(), nodeOf("c", newHash)).withPolicy(Policy{Waves: []Wave{soaking}}).passed(11*time.Minute, "canary")
				in.Ledger.Waves[0].Soaked = epoch.Add(-time.Minute)
				return in
			}(),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "pending/Unavailable", "c": "updated/AtTarget"}},
		},
		{
			name: "nor for one of a later wave, or on a node that is offline",
			in: func() Input {
				off := offline(doneB)
				off.ReadyWritten = off.ReadySince
				return inputOf(3, a, off, broken(nodeOf("c", newHash))).withPolicy(Policy{Waves: []Wave{soaking}}).passed(10*time.Minute, "canary")
			}(),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "updated/AtTarget", "c": "pending/Unavailable"}},
		},
		{
			name: "but for a node that has failed since",
			in:   inputOf(3, a, offline(doneB)).withPolicy(Policy{Waves: []Wave{soaking}}).passed(10*time.Minute, "canary"), // shortly after its new pod
			want: said{States: map[string]string{"a": "held/Soaking", "b": "failed/NodeLost"}},
		},
		{
			name: "a wave does not start on nodes that are offline, and a wave without a proof is not passed",
			in:   inputOf(3, a, offline(canaryB)).withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{States: map[string]string{"a": "held/WaveNotReached", "b": "skipped/NodeOffline"}},
		},
		{
			name: "an offline node does not hold up a wave of which another node is updated",
			in: inputOf(3, a, doneB, offline(labeled(c, "canary", "yes"))).
				withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "updated/AtTarget", "c": "skipped/NodeOffline"}},
		},
		{
			name: "a node that returns to a wave passed long ago starts at once",
			in:   inputOf(1, a, canaryB).withPolicy(Policy{Waves: []Wave{canary}}).passed(time.Hour, "canary"),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "pending/BudgetExhausted", "b": "in-flight/Replacing"}},
		},
		{
			name: "a failed node holds up the waves after its own",
			in: func() Input {
				in := inputOf(3, a, labeled(crashing(nodeOf("b", newHash)), "canary", "yes"), labeled(nodeOf("c", newHash), "canary", "yes"))
				in.Ledger.Failures = []Failure{{Node: "b", UID: "uid-b", Reason: ReasonCrashLooping, Message: "crashed"}}
				return in.withPolicy(Policy{Waves: []Wave{canary}})
			}(),
			want: said{States: map[string]string{"a": "held/WaveNotReached", "b": "failed/CrashLooping", "c": "updated/AtTarget"}},
		},
		{
			name: "a node that went offline after it was started holds up the waves after its own",
			in: inputOf(3, a, offline(canaryB), labeled(nodeOf("c", newHash), "canary", "yes")).slots(slotOf(b, time.Minute)).
				withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{Slots: []string{"b"},
				States: map[string]string{"a": "held/WaveNotReached", "b": "in-flight/NodeLost", "c": "updated/AtTarget"}},
		},
		{
			name: "so does one that went offline with its new pod",
			in:   inputOf(3, a, offline(doneB)).slots(slotOf(b, time.Minute)).withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{Slots: []string{"b"}, States: map[string]string{"a": "held/WaveNotReached", "b": "in-flight/NodeLost"}},
		},
		{
			name: "also once it has failed, and another node of its wave is updated",
			in: func() Input {
				in := inputOf(3, a, offline(doneB), labeled(nodeOf("c", newHash), "canary", "yes"))
				in.Ledger.Failures = []Failure{{Node: "b", UID: "uid-b", Reason: ReasonNodeLost, Message: "lost"}}
				return in.withPolicy(Policy{Waves: []Wave{canary}})
			}(),
			want: said{States: map[string]string{"a": "held/WaveNotReached", "b": "failed/NodeLost", "c": "updated/AtTarget"}},
		},
		{
			name: "a failed node that has recovered holds up nothing",
			in: func() Input {
				in := inputOf(3, a, doneB)
				in.Ledger.Failures = []Failure{{Node: "b", UID: "uid-b", Reason: ReasonNodeLost, Message: "lost"}}
				return in.withPolicy(Policy{Waves: []Wave{canary}})
			}(),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "updated/AtTarget"}},
		},
		{
			name: "a manual wave waits for a person",
			in:   inputOf(3, a, doneB).withPolicy(Policy{Waves: []Wave{canary, manual}}),
			want: said{States: map[string]string{"a": "held/AwaitingApproval", "b": "updated/AtTarget"}},
		},
		{
			name: "an approved manual wave starts",
			in:   inputOf(3, a, doneB).withPolicy(Policy{Waves: []Wave{canary, manual}, Approved: map[string]bool{"main": true}}),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "updated/AtTarget"}},
		},
		{
			name: "under OTA waves do not hold up the person at the node",
			in:   ota(inputOf(3, asking(nodeOf("a", oldHash)), canaryB)).withPolicy(Policy{Waves: []Wave{canary}}),
			want: said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "held/AwaitingRequest"}},
		},
		{
			name: "a pool has its own budget",
			in:   inputOf(3, inPool(a, "x"), inPool(b, "x"), inPool(c, "y")).withPolicy(Policy{PoolMaxUnavailable: ptr.To(intstr.FromInt32(1))}),
			want: said{Started: []string{"a", "c"}, Delete: []string{"a-0", "c-0"}, Slots: []string{"a", "c"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "pending/PoolBudgetExhausted", "c": "in-flight/Replacing"}},
		},
		{
			name: "control plane nodes go last where the policy says so",
			in:   inputOf(1, controlPlane(a), b).withPolicy(Policy{ControlPlane: ControlPlaneLast}),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "pending/BudgetExhausted", "b": "in-flight/Replacing"}},
		},
		{
			name: "the node of the operator goes last, after the control plane",
			in:   inputOf(1, home(a), controlPlane(b)).withPolicy(Policy{ControlPlane: ControlPlaneLast}),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "pending/BudgetExhausted", "b": "in-flight/Replacing"}},
		},
		{
			name: "contract 95 and 98: control plane nodes go first, as they do unless the policy says otherwise",
			in:   inputOf(1, a, controlPlane(b)).withPolicy(Policy{ControlPlane: ControlPlaneFirst}),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "pending/BudgetExhausted", "b": "in-flight/Replacing"}},
		},
		{
			name: "a node that returned a moment ago is left alone",
			in: func() Input {
				back := nodeOf("a", oldHash)
				back.ReadySince = epoch.Add(-time.Minute)
				return inputOf(2, back, b).withPolicy(Policy{Returned: 5 * time.Minute})
			}(),
			want: said{Started: []string{"b"}, Delete: []string{"b-0"}, Slots: []string{"b"},
				States: map[string]string{"a": "held/RecentlyReturned", "b": "in-flight/Replacing"}},
		},
		{
			name: "one failure halts where the threshold is one",
			in: inputOf(3, crashing(nodeOf("a", newHash)), b).slots(slotOf(a, time.Minute)).
				withPolicy(Policy{Threshold: ptr.To(intstr.FromInt32(1))}),
			want: said{Halted: true, States: map[string]string{"a": "failed/CrashLooping", "b": "held/Halted"}},
		},
		{
			name: "outside of the window nothing starts, and what is in flight goes on",
			in:   inputOf(3, a, b).slots(slotOf(a, time.Minute)).withPolicy(Policy{Window: windowOf("02:00", time.Hour)}),
			want: said{Delete: []string{"a-0"}, Slots: []string{"a"},
				States: map[string]string{"a": "in-flight/Replacing", "b": "held/OutsideMaintenanceWindow"}},
		},
		{
			name: "a node does not start when its usual duration does not fit into the window",
			in: func() Input {
				in := inputOf(3, a).withPolicy(Policy{Window: windowOf("23:30", time.Hour)}) // open until 00:30
				in.Ledger.Usual = 31 * time.Minute
				return in
			}(),
			want: said{States: map[string]string{"a": "held/OutsideMaintenanceWindow"}},
		},
		{
			name: "the time that a node took which is done just now decides whether the next one fits into the window",
			in: inputOf(3, nodeOf("a", newHash), b).slots(slotOf(a, 31*time.Minute)).
				withPolicy(Policy{Window: windowOf("23:30", time.Hour)}), // open until 00:30
			want: said{States: map[string]string{"a": "updated/AtTarget", "b": "held/OutsideMaintenanceWindow"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, say(Plan(tt.in))); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
		})
	}
}

func inPool(n Node, pool string) Node {
	n.Pool = pool
	return n
}

func controlPlane(n Node) Node {
	n.ControlPlane = true
	return n
}

func home(n Node) Node {
	n.HostsOperator = true
	return n
}

func windowOf(start string, length time.Duration, days ...time.Weekday) *Window {
	at, err := time.Parse("15:04", start)
	if err != nil {
		panic(err)
	}
	w := &Window{Start: time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, Length: length, Zone: time.UTC}
	for _, d := range days {
		if w.Days == nil {
			w.Days = map[time.Weekday]bool{}
		}
		w.Days[d] = true
	}
	return w
}

func TestWindow(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	santiago, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		window *Window
		zone   *time.Location
		now    string
		open   bool
		until  string
	}{
		{"closed before its start of the day", windowOf("02:00", time.Hour), time.UTC, "2026-01-01T00:00:00Z", false, "2026-01-01T02:00:00Z"},
		{"open from its start on", windowOf("02:00", time.Hour), time.UTC, "2026-01-01T02:00:00Z", true, "2026-01-01T03:00:00Z"},
		{"closed from its end on, until tomorrow", windowOf("02:00", time.Hour), time.UTC, "2026-01-01T03:00:00Z", false, "2026-01-02T02:00:00Z"},
		{"open past midnight", windowOf("23:00", 2*time.Hour), time.UTC, "2026-01-01T00:30:00Z", true, "2026-01-01T01:00:00Z"},
		{"open only on its days", windowOf("02:00", time.Hour, time.Saturday), time.UTC, "2026-01-01T02:30:00Z", false, "2026-01-03T02:00:00Z"},
		{"the day is that of the start", windowOf("23:00", 2*time.Hour, time.Wednesday), time.UTC, "2026-01-01T00:30:00Z", true, "2026-01-01T01:00:00Z"},
		{"meant in the zone", windowOf("02:00", time.Hour), shanghai, "2025-12-31T18:30:00Z", true, "2025-12-31T19:00:00Z"},
		{"windows that touch are one", windowOf("00:00", 24*time.Hour, time.Thursday, time.Friday), time.UTC, "2026-01-01T12:00:00Z", true, "2026-01-03T00:00:00Z"},
		{"a start that daylight saving skips is after the gap", windowOf("02:30", time.Hour), berlin, "2026-03-29T01:00:00Z", false, "2026-03-29T01:30:00Z"},
		{"also west of Greenwich", windowOf("02:30", time.Hour), newYork, "2027-03-14T06:15:00Z", false, "2027-03-14T07:30:00Z"},
		{"a start at a midnight that is skipped is on its day", windowOf("00:30", time.Hour, time.Sunday), santiago, "2027-09-02T12:00:00Z", false, "2027-09-05T04:30:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			open, until := tt.window.at(now, tt.zone)
			if open != tt.open || until.UTC().Format(time.RFC3339) != tt.until {
				t.Errorf("at %s: open %v until %s, want %v until %s", tt.now, open, until.UTC().Format(time.RFC3339), tt.open, tt.until)
			}
		})
	}
}

func TestANodesOwnZoneDecidesAboutTheWindow(t *testing.T) {
	east := nodeOf("a", oldHash)
	east.TimeZone = time.FixedZone("east", 3*3600) // 03:00 there when it is 00:00 UTC
	wrong := nodeOf("b", oldHash)
	wrong.ZoneError = "node label zone is \"Mars\", which is no time zone"
	d := Plan(inputOf(2, east, wrong).withPolicy(Policy{Window: windowOf("02:30", time.Hour)}))
	want := said{Started: []string{"a"}, Delete: []string{"a-0"}, Slots: []string{"a"},
		States: map[string]string{"a": "in-flight/Replacing", "b": "held/OutsideMaintenanceWindow"}}
	if diff := cmp.Diff(want, say(d)); diff != "" {
		t.Errorf("Plan (-want +got):\n%s", diff)
	}
}

func TestWavesBySizeAreStableAndTakeEachNodeOnce(t *testing.T) {
	var nodes []Node
	for i := range 20 {
		nodes = append(nodes, nodeOf(fmt.Sprintf("n%02d", i), oldHash))
	}
	in := inputOf(20, nodes...).withPolicy(Policy{Waves: []Wave{sizedWave("one", "1"), sizedWave("tenth", "10%"), sizedWave("half", "50%")}})
	var started []string
	for range 4 {
		d := Plan(in)
		started = append(started, fmt.Sprint(len(d.Started)))
		in.Ledger = d.Ledger
		for i := range in.Nodes {
			for _, x := range d.Delete {
				if x.Node == in.Nodes[i].Name {
					in.Nodes[i] = nodeOf(x.Node, newHash)
				}
			}
		}
	}
	if got := strings.Join(started, " "); got != "1 2 10 7" {
		t.Errorf("nodes started wave by wave: %s, want 1 2 10 7", got)
	}
	for _, w := range Plan(in).Ledger.Waves {
		if w.Completed.IsZero() || w.Updated != w.Total {
			t.Errorf("wave %+v is not complete", w)
		}
	}
}

func TestPlanLearnsHowLongANodeTakes(t *testing.T) {
	done := nodeOf("a", newHash)
	d := Plan(inputOf(1, done, nodeOf("b", oldHash)).slots(slotOf(done, 40*time.Second)))
	if d.Ledger.Usual != 40*time.Second || d.ETA() != 40*time.Second {
		t.Errorf("usual %s, ETA %s; want 40s for the one node left", d.Ledger.Usual, d.ETA())
	}
}

func TestAnApprovalNamesTheCommandAndTheRevision(t *testing.T) {
	d := Plan(inputOf(1, nodeOf("a", oldHash)).withPolicy(Policy{Waves: []Wave{{Name: "main", Selector: labels.Everything(), Manual: true}}}))
	if m := d.Verdicts()[0].Message; !strings.Contains(m, "r2/main") {
		t.Errorf("message %q does not name what to approve", m)
	}
}
