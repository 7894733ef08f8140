package planfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

func withGlobal(s *topsv1.UpgradePlanSpec) {
	s.Before = []topsv1.GlobalTask{{Task: "database_backup", CronJob: "backup"}, {Task: "images_list", CronJob: "images"}}
	s.After = []topsv1.GlobalTask{{Task: "cluster_check", CronJob: "check"}}
}

func TestAPlanHasTasksBeforeAndAfterTheNodes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edit  func(*topsv1.UpgradePlanSpec)
		wrong string
	}{
		{"contract 91: tasks of upg-server", withGlobal, ""},
		{"one without an action", func(s *topsv1.UpgradePlanSpec) { s.Before[0].Task = "backup" }, `global task "backup" is not of the form target_action`},
		{"one with three names", func(s *topsv1.UpgradePlanSpec) { s.Before[0].Task = "upg-server_database_backup" }, "is not of the form target_action"},
		{"a long one", func(s *topsv1.UpgradePlanSpec) { s.Before[0].Task = "database_" + strings.Repeat("b", 40) }, "with at most 40"},
		{"the same twice", func(s *topsv1.UpgradePlanSpec) { s.After[0].Task = "database_backup" }, "global task database_backup appears twice"},
		{"one without a CronJob", func(s *topsv1.UpgradePlanSpec) { s.After[0].CronJob = "" }, `cluster_check: cronJob "" is not the name of a CronJob`},
		{"one of another namespace", func(s *topsv1.UpgradePlanSpec) { s.After[0].CronJob = "default/check" }, "is not the name of a CronJob"},
		{"a node of that name", func(s *topsv1.UpgradePlanSpec) { s.Batches[0].Jobs[0].Nodes[0] = "upg-server" }, "node upg-server has the name that stands for the host of global tasks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := object(t, fleet(2, always("driver")), 1, 0)
			withGlobal(&o.Spec)
			tt.edit(&o.Spec)
			p, err := Parse([]byte(text(t, o)), upgradeplan.DefaultBook())
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("%v, want %q", err, tt.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"backup", "check", "images"}, p.CronJobs()); diff != "" {
				t.Error(diff)
			}
			if got := p.GlobalText(); got != "before the nodes: upg-server_database_backup, from CronJob backup\nbefore the nodes: upg-server_images_list, from CronJob images\n"+
				"after the nodes: upg-server_cluster_check, from CronJob check\n" {
				t.Error(got)
			}
		})
	}
}

// Contract 93.
func TestTheResultHasTheTasksOfTheCluster(t *testing.T) {
	o := object(t, fleet(1, always("driver")), 1, 0)
	withGlobal(&o.Spec)
	now := metav1.Now()
	o.Status = topsv1.UpgradePlanStatus{Time: &now, Done: 1, Tasks: []topsv1.GlobalTaskNote{
		{Task: "upg-server_database_backup", Result: "done"}, {Task: "upg-server_images_list", Result: "done"}, {Task: "upg-server_cluster_check", Result: "fail", Message: "Job failed"}}}
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	r := ResultOf(gr, o, true)
	if diff := cmp.Diff([]topsv1.FailedNode{{Node: "upg-server", Task: "upg-server_cluster_check", Message: "Job failed"}}, r.Failed); diff != "" {
		t.Error(diff)
	}
	var said []string
	for _, n := range r.Nodes {
		said = append(said, n.Batch+" "+n.Node+" "+string(n.Result))
	}
	if diff := cmp.Diff([]string{"before upg-server done", "batch-1 n-1 done", "after upg-server fail"}, said); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"upg-server_database_backup", "upg-server_images_list"}, r.Nodes[0].Tasks.Done); diff != "" {
		t.Error(diff)
	}
	o.Status.Tasks = o.Status.Tasks[:1]
	if r = ResultOf(gr, o, true); r.Nodes[0].Result != NotDone || len(r.Nodes[0].Tasks.Undo) != 1 || r.Nodes[2].Result != NotDone || len(r.Failed) != 0 {
		t.Errorf("of one task: %+v", r)
	}
}
