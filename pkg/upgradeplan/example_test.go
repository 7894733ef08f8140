package upgradeplan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/test/golden"
)

// The worked example of the upgrade framework's design (contract statement 93, decision D23).
// Its two golden plans come from that document and are never updated.
var (
	exampleNodes = []Node{
		{Name: "A", Deployed: []string{"X", "Y", "Z"}, Changed: []string{"X", "Y"}},
		{Name: "B", Deployed: []string{"X"}, Changed: []string{"X"}},
	}
	exampleCut = func(t Task) bool {
		return (t.Host == "A" && t.Target == "Y" || t.Host == "B" && t.Target == "X") && slices.Contains([]string{"stop", "uprpm", "start"}, t.Action)
	}
)

func exampleBook() LogicBook {
	restart := []Need{{Actions: []string{"dispatch", "check", "stop", "uprpm", "start"}}}
	return LogicBook{
		Actions: []Action{
			{Name: "dispatch", GroupBy: GroupByTask},
			{Name: "check", GroupBy: GroupByTask},
			{Name: "stop", GroupBy: GroupByTask, Inverse: "start"},
			{Name: "uprpm"},
			{Name: "start", GroupBy: GroupByTask, Inverse: "stop"},
		},
		Targets: []Target{
			{Name: "X", Disruption: ReplacePod, Needs: restart},
			{Name: "Y", Disruption: ReplacePod, Needs: restart},
		},
		Steps: []Step{
			{Action: "dispatch"},
			{Action: "check"},
			{Action: "stop", Targets: []string{"X"}},
			{Action: "stop", Targets: []string{"Y"}},
			{Action: "uprpm"},
			{Action: "start", Targets: []string{"Y"}},
			{Action: "start", Targets: []string{"X"}},
		},
	}
}

// Contract 94.
func TestTheWorkedExampleHasItsFifteenTasks(t *testing.T) {
	got, err := Generate(exampleBook(), exampleNodes)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"A_X_dispatch", "A_X_check", "A_X_stop", "A_X_uprpm", "A_X_start",
		"A_Y_dispatch", "A_Y_check", "A_Y_stop", "A_Y_uprpm", "A_Y_start",
		"B_X_dispatch", "B_X_check", "B_X_stop", "B_X_uprpm", "B_X_start",
	}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Error(diff)
	}
}

// Contract 94.
func TestTheWorkedExampleIsPlannedAsInItsDocument(t *testing.T) {
	plan := mustPlan(t, exampleBook(), exampleNodes, 0)
	sameAsDocument(t, plan, "worked-example.json")
	sameAsDocument(t, Cut(plan, exampleCut), "worked-example-cut.json")
}

// sameAsDocument compares the content of the plan.
func sameAsDocument(t *testing.T, got Mission, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var want Mission
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestPlansPrintAsTheirGoldenFiles(t *testing.T) {
	fleet := fleetOf(23, TargetDriver, TargetToolkit)
	for i := 20; i < 23; i++ {
		fleet[i].Changed = []string{TargetExporter}
	}
	fleet[0].Wave, fleet[1].Wave = -1, -1
	wave := func(host string) string {
		if host < "n00003" {
			return "wave canary"
		}
		return ""
	}
	cases := []struct {
		name  string
		book  LogicBook
		nodes []Node
		size  int
		label func(string) string
	}{
		{"worked-example", exampleBook(), exampleNodes, 0, nil},
		{"fleet", DefaultBook(), fleet, 5, wave},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan := mustPlan(t, c.book, c.nodes, c.size)
			golden.Check(t, c.name+".table", Table(plan, c.label))
			golden.Check(t, c.name+".mermaid", Mermaid(plan, c.label))
		})
	}
}

func mustPlan(t testing.TB, book LogicBook, nodes []Node, size int) Mission {
	t.Helper()
	m, err := Plan(book, nodes, size)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func names(tasks []Task) []string {
	var all []string
	for _, t := range tasks {
		all = append(all, t.String())
	}
	return all
}

// outline returns each job of a mission as "host: a b > c", with the target and action of
// each task, and a batch as a list of jobs.
func outline(m Mission) [][]string {
	var all [][]string
	for _, batch := range m {
		var jobs []string
		for _, job := range batch {
			var stages []string
			for _, stage := range job {
				var tasks []string
				for _, t := range stage {
					tasks = append(tasks, t.Action+" "+t.Target)
				}
				stages = append(stages, strings.Join(tasks, ", "))
			}
			jobs = append(jobs, job.Host()+": "+strings.Join(stages, " > "))
		}
		all = append(all, jobs)
	}
	return all
}

func tasksOf(m Mission) []Task { return slices.Collect(m.All()) }
