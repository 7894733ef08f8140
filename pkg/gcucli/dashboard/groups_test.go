package dashboard

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// drawn returns a group in short: its name and note, the nodes, and what became of its tasks.
func drawn(groups []group) (lines []string) {
	for _, g := range groups {
		line := g.When + g.Name + "|" + g.Note + "|"
		for _, c := range g.Cells {
			line += c.Name + c.Letter + " "
		}
		for _, stage := range g.Stages {
			line += "["
			for _, t := range stage {
				line += t.Name + ":" + string(rune('0'+t.Done)) + string(rune('0'+t.Fail)) + string(rune('0'+t.NotDone)) + " "
			}
			line += "]"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestNodesByWave(t *testing.T) {
	r := rolling()
	r.Wave = map[string]string{"n1": "canary", "n2": "main", "n3": "main", "n4": rollout.RestWave}
	want := []string{"canary|Complete|n1U ", "main|AwaitingApproval|n2X n3H ", "||n4P "}
	if diff := cmp.Diff(want, drawn(groupsOf(r, byWave))); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if s := sectionOf(r, verbs{}, "plan"); s.By != byZone {
		t.Errorf("without a plan nodes are grouped by %s", s.By)
	}
}

func TestAPlanIsDrawnWithItsResults(t *testing.T) {
	r := rolling()
	r.Waves = []display.Wave{{Name: "night/first", State: display.WaveComplete}, {Name: "night/second", State: display.WaveAwaitsApproval}}
	r.Plan = &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "night"}, Spec: topsv1.UpgradePlanSpec{
		Before: []topsv1.GlobalTask{{Task: "database_backup"}, {Task: "alerts_silence"}}, After: []topsv1.GlobalTask{{Task: "database_backup"}},
		Jobs: []topsv1.PlannedJob{{Name: "both", Stages: []topsv1.PlannedStage{{"driver_replace"}, {"plugin_replace", "node_uncordon"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "first", Jobs: []topsv1.PlannedNodes{{Job: "both", Nodes: []string{"n1", "n2"}}}},
			{Name: "second", Jobs: []topsv1.PlannedNodes{{Job: "both", Nodes: []string{"n3", "gone"}}, {Job: "unknown", Nodes: []string{"n3x"}}}}},
	}}
	r.Result = planfile.Result{Nodes: []planfile.NodeResult{
		{Node: planfile.GlobalHost, Batch: planfile.BeforeNodes, Tasks: topsv1.OperationResult{Done: []string{"upg-server_database_backup"}, Fail: []string{"upg-server_alerts_silence"}}},
		{Node: planfile.GlobalHost, Batch: planfile.AfterNodes, Tasks: topsv1.OperationResult{Undo: []string{"upg-server_database_backup"}}},
		{Node: "n1", Tasks: topsv1.OperationResult{Done: []string{"n1_driver_replace", "n1_plugin_replace", "n1_node_uncordon"}}},
		{Node: "n2", Tasks: topsv1.OperationResult{Done: []string{"n2_driver_replace"}, Fail: []string{"n2_plugin_replace"}, Undo: []string{"n2_node_uncordon"}}},
	}}
	want := []string{
		"before||[database_backup:100 ][alerts_silence:010 ]",
		"first · both|Complete|n1U n2X [driver_replace:200 ][plugin_replace:110 node_uncordon:101 ]",
		"second · both|AwaitingApproval|n3H goneS [driver_replace:002 ][plugin_replace:002 node_uncordon:002 ]",
		"second · unknown|AwaitingApproval|n3xS ",
		"after||[database_backup:001 ]",
		"||n4P ",
	}
	s := sectionOf(r, verbs{}, "")
	if diff := cmp.Diff(want, drawn(s.Groups)); diff != "" || s.By != byPlan {
		t.Errorf("by %s, groups (-want +got):\n%s", s.By, diff)
	}
	page, err := rendered("main", pageData{Words: texts["en"], Resources: []section{s}})
	check(t, err)
	for _, want := range []string{`<code lang="en">plugin_replace</code> <span class="result done">1 done</span> <span class="result fail">1 failed</span>`, `href="?by=zone&amp;lang=en"`, "not in the plan",
		"<h4>before the nodes</h4>", "<h4>after the nodes</h4>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
}
