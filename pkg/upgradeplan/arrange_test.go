package upgradeplan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBatches(t *testing.T) {
	nodes := []Node{
		{Name: "w1", Wave: 1}, {Name: "w2", Wave: 1}, {Name: "w3", Wave: 1},
		{Name: "c1", Wave: 1, ControlPlane: true}, {Name: "c2", Wave: 1, ControlPlane: true},
		{Name: "canary", Wave: 0},
	}
	cases := []struct {
		name  string
		place Place
		size  int
		want  [][]string
	}{
		{"without a limit there is a batch for each wave", Any, 0, [][]string{{"canary"}, {"w1", "w2", "w3", "c1", "c2"}}},
		{"no place is any place", "", 0, [][]string{{"canary"}, {"w1", "w2", "w3", "c1", "c2"}}},
		{"a batch has at most size nodes", Any, 2, [][]string{{"canary"}, {"w1", "w2"}, {"w3", "c1"}, {"c2"}}},
		{"contract 98: the control plane first has batches of its own within its wave", First, 2, [][]string{{"canary"}, {"c1", "c2"}, {"w1", "w2"}, {"w3"}}},
		{"the control plane last has batches of its own within its wave", Last, 2, [][]string{{"canary"}, {"w1", "w2"}, {"w3"}, {"c1", "c2"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := batchesOf(LogicBook{ControlPlane: c.place}, nodes, c.size)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := batchesOf(LogicBook{}, nodes, -1); err == nil {
		t.Error("a negative size is accepted")
	}
}

// The framework's design has such a job: all steps are grouped by host.
func TestStepsInARowThatAreGroupedByHostAreOneJob(t *testing.T) {
	book := exampleBook()
	for i := range book.Actions {
		book.Actions[i].GroupBy = GroupByHost
	}
	want := [][]string{{
		"A: dispatch X, dispatch Y > check X, check Y > stop X > stop Y > uprpm X, uprpm Y > start Y > start X",
		"B: dispatch X > check X > stop X > uprpm X > start X",
	}}
	if diff := cmp.Diff(want, outline(mustPlan(t, book, exampleNodes, 0))); diff != "" {
		t.Error(diff)
	}
}

func TestABatchEndsBeforeTheNextIsTouched(t *testing.T) {
	want := [][]string{
		{"A: dispatch X", "A: dispatch Y"},
		{"A: check X", "A: check Y"},
		{"A: stop X"},
		{"A: stop Y"},
		{"A: uprpm X, uprpm Y"},
		{"A: start Y"},
		{"A: start X"},
		{"B: dispatch X"}, {"B: check X"}, {"B: stop X"}, {"B: uprpm X"}, {"B: start X"},
	}
	if diff := cmp.Diff(want, outline(mustPlan(t, exampleBook(), exampleNodes, 1))); diff != "" {
		t.Error(diff)
	}
}

func TestNodesWithNothingToDoTakeNoPlaceInABatch(t *testing.T) {
	nodes := fleetOf(4, TargetExporter)
	nodes[0].Changed, nodes[2].Changed = nil, nil
	want := [][]string{{"n00002: replace exporter", "n00004: replace exporter"}}
	if diff := cmp.Diff(want, outline(mustPlan(t, DefaultBook(), nodes, 2))); diff != "" {
		t.Error(diff)
	}
}

// The plan has nodes 1 and 2 first, then 3 and 4; the command orders 1 and 3, then 2 and 4:
// the framework's example of a cut that changes the order.
func TestACutIsRebatchedOnRequest(t *testing.T) {
	nodes := fleetOf(4, TargetExporter, TargetNFD)
	cut := Cut(mustPlan(t, DefaultBook(), nodes, 2), func(t Task) bool { return t.Target == TargetExporter })
	if diff := cmp.Diff([][]string{{"n00001: replace exporter", "n00002: replace exporter"}, {"n00003: replace exporter", "n00004: replace exporter"}}, outline(cut)); diff != "" {
		t.Error(diff)
	}
	m, err := Arrange(DefaultBook(), tasksOf(cut), [][]string{{"n00001", "n00003"}, {"n00002", "n00004"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"n00001: replace exporter", "n00003: replace exporter"}, {"n00002: replace exporter", "n00004: replace exporter"}}, outline(m)); diff != "" {
		t.Error(diff)
	}
}

func TestArrangeRefuses(t *testing.T) {
	cases := []struct {
		name    string
		tasks   string
		batches [][]string
		want    string
	}{
		{"a task that the book does not know", `["A_X_reboot"]`, [][]string{{"A"}}, "task A_X_reboot has no place in the logic book"},
		{"a task twice", `["A_X_stop","A_X_stop"]`, [][]string{{"A"}}, "task A_X_stop appears twice"},
		{"a host in no batch", `["A_X_stop"]`, [][]string{{"B"}}, "task A_X_stop: its host is in no batch"},
		{"a host in two batches", `["A_X_stop"]`, [][]string{{"A"}, {"A"}}, "host A is in two places of the batches"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var tasks []Task
			if err := json.Unmarshal([]byte(c.tasks), &tasks); err != nil {
				t.Fatal(err)
			}
			m, err := Arrange(exampleBook(), tasks, c.batches)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v and error %v, want %q", outline(m), err, c.want)
			}
		})
	}
}

func TestGenerateRefuses(t *testing.T) {
	cases := []struct {
		name  string
		nodes []Node
		want  string
	}{
		{"a node without a name", []Node{{}}, "the node has no name"},
		{"a name that is not one of a node", []Node{{Name: "a_b"}}, `node "a_b" may have`},
		{"a node twice", []Node{{Name: "A"}, {Name: "A"}}, "node A appears twice"},
		{"a changed component that is not deployed", []Node{{Name: "A", Changed: []string{"X"}}}, "node A: component X changed, but is not deployed"},
		{"a changed component that the book does not know", []Node{{Name: "A", Deployed: []string{"Z"}, Changed: []string{"Z"}}}, `node A: the logic book has no component "Z"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Generate(exampleBook(), c.nodes); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if _, err := Plan(exampleBook(), c.nodes, 0); err == nil {
				t.Error("Plan takes it")
			}
		})
	}
	_, err := Generate(DefaultBook(), []Node{{Name: "A", Changed: []string{TargetNode}}})
	if err == nil || !strings.Contains(err.Error(), `no component "node"`) {
		t.Errorf("a part of the node may change: %v", err)
	}
}
