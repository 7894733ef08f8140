package planfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// fleet returns nodes n-1 to n-count with everything deployed, and what changed on each.
func fleet(count int, changed func(i int) []string) map[string]upgradeplan.Node {
	nodes := map[string]upgradeplan.Node{}
	for i := range count {
		name := fmt.Sprintf("n-%d", i+1)
		nodes[name] = upgradeplan.Node{Name: name, Deployed: []string{"driver", "devicePlugin", "exporter"}, Changed: changed(i)}
	}
	return nodes
}

func always(components ...string) func(int) []string { return func(int) []string { return components } }

// object plans nodes, in the order of their numbers, size at a time. The last offline of them are offline.
func object(t testing.TB, nodes map[string]upgradeplan.Node, size, offline int) *topsv1.UpgradePlan {
	t.Helper()
	var reachable []upgradeplan.Node
	var off []string
	for i := range len(nodes) {
		if n := nodes[fmt.Sprintf("n-%d", i+1)]; i < len(nodes)-offline {
			reachable = append(reachable, n)
		} else {
			off = append(off, n.Name)
		}
	}
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), reachable, size)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Of(upgradeplan.DefaultBook(), mission, nodes, off, 90)
	if err != nil {
		t.Fatal(err)
	}
	spec.GcuResource, spec.Revision, spec.Wanted = "fleet", "fleet-1", wanted()
	return &topsv1.UpgradePlan{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: Kind}, ObjectMeta: metav1.ObjectMeta{Name: "plan"}, Spec: spec}
}

// wanted is a spec of a gr.
func wanted() *runtime.RawExtension {
	return &runtime.RawExtension{Raw: []byte(`{"driver":{"version":"2"}}`)}
}

func text(t testing.TB, o *topsv1.UpgradePlan) string {
	t.Helper()
	out, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestAPlanIsReadBackAsTheMissionThatItWasWrittenFrom(t *testing.T) {
	nodes := fleet(5, func(i int) []string {
		if i == 1 {
			return []string{"exporter"}
		}
		return []string{"driver"}
	})
	o := object(t, nodes, 2, 1)
	p, err := Parse([]byte(text(t, o)), upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(p.Object.Spec.Jobs); got != 2 {
		t.Errorf("%d jobs, want 2: nodes with equal tasks share one", got)
	}
	var hosts [][]string
	tasks := 0
	for _, batch := range p.Mission() {
		var in []string
		for _, job := range batch {
			in = append(in, job.Host())
			tasks += len(slices.Collect(job.All()))
		}
		hosts = append(hosts, in)
	}
	if diff := cmp.Diff([][]string{{"n-1", "n-2"}, {"n-3", "n-4"}, {"n-5"}}, hosts); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
	whole, err := upgradeplan.Generate(upgradeplan.DefaultBook(), slices.Collect(func(yield func(upgradeplan.Node) bool) {
		for _, n := range nodes {
			if !yield(n) {
				return
			}
		}
	}))
	if err != nil || tasks != len(whole) {
		t.Errorf("%d tasks in the plan, the nodes need %d (%v)", tasks, len(whole), err)
	}
	if got := p.Object.Spec.Batches[2].Name; got != OfflineBatch {
		t.Errorf("the offline node is in batch %s", got)
	}
	if said := p.Object.Spec.Jobs[0].Reason; said != "not at the wanted revision: driver; new pods along with them: devicePlugin, exporter" {
		t.Errorf("reason %q", said)
	}
}

func TestAPlanOf10000NodesIsAFileOfLessThan1MiB(t *testing.T) {
	nodes := map[string]upgradeplan.Node{}
	var list []upgradeplan.Node
	for i := range 10_000 {
		name := fmt.Sprintf("edge-node-with-a-name-of-63-characters-as-long-as-labels-%06d", i)
		nodes[name] = upgradeplan.Node{Name: name, Deployed: []string{"driver"}, Changed: []string{"driver"}}
		list = append(list, nodes[name])
	}
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), list, 7)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Of(upgradeplan.DefaultBook(), mission, nodes, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	spec.GcuResource, spec.Revision, spec.Wanted = "fleet", "fleet-1", wanted()
	o := &topsv1.UpgradePlan{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: Kind}, ObjectMeta: metav1.ObjectMeta{Name: "plan"}, Spec: spec}
	out := text(t, o)
	p, err := Parse([]byte(out), upgradeplan.DefaultBook())
	if err != nil || p.Nodes() != 10_000 || len(spec.Batches) > maxBatches {
		t.Errorf("%d bytes, %d batches: %v", len(out), len(spec.Batches), err)
	}
}

func TestALargerFileIsRefused(t *testing.T) {
	_, err := Parse([]byte(strings.Repeat("#", MaxBytes+1)), upgradeplan.DefaultBook())
	if err == nil || !strings.Contains(err.Error(), "at most 1048576 are accepted") {
		t.Errorf("%v", err)
	}
}

// Contract 93 and 96: a plan is cut by host, component, component of a host, and action.
func TestWhatAPersonMayChange(t *testing.T) {
	tests := []struct {
		name string
		edit func(*topsv1.UpgradePlanSpec)
	}{
		{"a host is removed", func(s *topsv1.UpgradePlanSpec) { s.Batches[0].Jobs[0].Nodes = s.Batches[0].Jobs[0].Nodes[:1] }},
		{"a host moves to another batch", func(s *topsv1.UpgradePlanSpec) {
			s.Batches[0].Jobs[0].Nodes = []string{"n-1"}
			s.Batches[1].Jobs[0].Nodes = append(s.Batches[1].Jobs[0].Nodes, "n-2")
		}},
		{"batches change their order", func(s *topsv1.UpgradePlanSpec) { slices.Reverse(s.Batches) }},
		{"a batch is removed", func(s *topsv1.UpgradePlanSpec) { s.Batches = s.Batches[:1] }},
		{"a batch awaits approval", func(s *topsv1.UpgradePlanSpec) { s.Batches[1].Approval = topsv1.ApprovalManual }},
		{"a component is left out", func(s *topsv1.UpgradePlanSpec) { s.Jobs[0].Stages = []topsv1.PlannedStage{{"exporter_replace"}} }},
		{"prepulls and the soak are left out", func(s *topsv1.UpgradePlanSpec) { drop(s, "driver_prepull", "node_soak") }},
		{"tasks of a stage change their order", func(s *topsv1.UpgradePlanSpec) {
			for _, stage := range s.Jobs[0].Stages {
				slices.Reverse(stage)
			}
		}},
		{"one host has a job of its own, without a component", func(s *topsv1.UpgradePlanSpec) {
			s.Jobs = append(s.Jobs, topsv1.PlannedJob{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}})
			s.Batches[0].Jobs[0].Nodes = []string{"n-1"}
			s.Batches[0].Jobs = append(s.Batches[0].Jobs, topsv1.PlannedNodes{Job: "light", Nodes: []string{"n-2"}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := object(t, fleet(4, always("driver", "exporter")), 2, 0)
			tt.edit(&o.Spec)
			if _, err := Parse([]byte(text(t, o)), upgradeplan.DefaultBook()); err != nil {
				t.Error(err)
			}
		})
	}
}

// drop removes tasks from the first job.
func drop(s *topsv1.UpgradePlanSpec, tasks ...string) {
	var stages []topsv1.PlannedStage
	for _, stage := range s.Jobs[0].Stages {
		stage = slices.DeleteFunc(slices.Clone(stage), func(task string) bool { return slices.Contains(tasks, task) })
		if len(stage) > 0 {
			stages = append(stages, stage)
		}
	}
	s.Jobs[0].Stages = stages
}

func TestARefusalNamesTheRule(t *testing.T) {
	tests := []struct {
		name string
		edit func(*topsv1.UpgradePlanSpec)
		want string
	}{
		{"the cordon", func(s *topsv1.UpgradePlanSpec) { drop(s, "node_cordon") }, "node_cordon may not be left out: the node must be emptied before"},
		{"the eviction", func(s *topsv1.UpgradePlanSpec) { drop(s, "node_evict") }, "node_evict may not be left out: the node must be emptied before"},
		{"a verification", func(s *topsv1.UpgradePlanSpec) { drop(s, "driver_verify") }, "driver_verify may not be left out: the node must be checked before and after"},
		{"the uncordon", func(s *topsv1.UpgradePlanSpec) { drop(s, "node_uncordon") }, "a node that is cordoned must be uncordoned again. You may leave out prepull and soak, or a component"},
		{"a component that the others need", func(s *topsv1.UpgradePlanSpec) { drop(s, "driver_replace", "driver_verify", "driver_prepull") }, "node_precheck belongs to no component that the job replaces"},
		{"everything that is replaced", func(s *topsv1.UpgradePlanSpec) { drop(s, "driver_replace", "devicePlugin_replace", "exporter_replace") }, "replaces nothing"},
		{"the order on a node", func(s *topsv1.UpgradePlanSpec) { slices.Reverse(s.Jobs[0].Stages) }, "must have the order of the logic book: [node_precheck] [driver_prepull"},
		{"an unknown task", func(s *topsv1.UpgradePlanSpec) { s.Jobs[0].Stages[0][0] = "node_explode" }, `"node_explode" is not a task`},
		{"a node twice", func(s *topsv1.UpgradePlanSpec) { s.Batches[1].Jobs[0].Nodes[0] = "n-1" }, "node n-1 is in batch batch-1 and in batch batch-2"},
		{"a job that is not there", func(s *topsv1.UpgradePlanSpec) { s.Batches[1].Jobs[0].Job = "other" }, `there is no job "other"`},
		{"an empty batch", func(s *topsv1.UpgradePlanSpec) { s.Batches[1].Jobs = []topsv1.PlannedNodes{} }, "batch batch-2 has no jobs: remove it"},
		{"a name twice", func(s *topsv1.UpgradePlanSpec) { s.Batches[1].Name = "batch-1" }, "each batch needs a name of its own"},
		{"no revision", func(s *topsv1.UpgradePlanSpec) { s.Revision = "" }, "spec.gcuResource and spec.revision are required"},
		{"no spec of the gr", func(s *topsv1.UpgradePlanSpec) { s.Wanted = nil }, "metadata.name and spec.wanted are required"},
		{"no batch", func(s *topsv1.UpgradePlanSpec) { s.Batches = []topsv1.PlannedBatch{} }, "it has no batches"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := object(t, fleet(4, always("driver")), 2, 0)
			tt.edit(&o.Spec)
			_, err := Parse([]byte(text(t, o)), upgradeplan.DefaultBook())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want %q, got: %v", tt.want, err)
			}
		})
	}
}

func TestAnUnknownFieldIsRefused(t *testing.T) {
	out := strings.Replace(text(t, object(t, fleet(1, always("driver")), 1, 0)), "  batches:", "  batched: []\n  batches:", 1)
	if _, err := Parse([]byte(out), upgradeplan.DefaultBook()); err == nil || !strings.Contains(err.Error(), "batched") {
		t.Errorf("%v", err)
	}
}

// A null would count as absent: a component without a value would be removed, and a batch without one need no approval.
func TestANullIsRefused(t *testing.T) {
	whole := text(t, object(t, fleet(1, always("driver")), 1, 0))
	for says, edit := range map[string][2]string{
		"spec.wanted.driver is null: give it a value, or remove it":       {"driver:\n      version: \"2\"", "driver: null"},
		"spec.wanted.gfd.env[1] is null: give it a value, or remove it":   {"    driver:\n", "    gfd: {env: [{name: A}, ~]}\n    driver:\n"},
		"spec.batches[0].approval is null: give it a value, or remove it": {"approval: Automatic", "approval:"},
		"spec.before is null: give it a value, or remove it":              {"  batches:\n", "  before:\n  batches:\n"},
		"spec.wanted is null: give it a value, or remove it":              {"wanted:\n    driver:\n      version: \"2\"", "wanted: null"},
	} {
		edited := strings.Replace(whole, edit[0], edit[1], 1)
		if _, err := Parse([]byte(edited), upgradeplan.DefaultBook()); edited == whole || err == nil || err.Error() != "the file is not a plan: "+says {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// Two plans in one file, as of two grs, are not the first one.
func TestASecondPlanInAFileIsRefused(t *testing.T) {
	one := text(t, object(t, fleet(1, always("driver")), 1, 0))
	if _, err := Parse([]byte(one+"---\n"+one), upgradeplan.DefaultBook()); err == nil || !strings.Contains(err.Error(), "more than one") {
		t.Errorf("%v", err)
	}
}

func TestAPlanIsRefusedWhenTheWorldMoved(t *testing.T) {
	planned := fleet(3, always("driver"))
	tests := []struct {
		name string
		move func(map[string]upgradeplan.Node)
		want string
	}{
		{"nothing moved", func(map[string]upgradeplan.Node) {}, ""},
		{"a node is done", func(n map[string]upgradeplan.Node) { set(n, "n-2", nil, "driver", "devicePlugin", "exporter") }, ""},
		{"another component is outdated too", func(n map[string]upgradeplan.Node) {
			set(n, "n-2", []string{"driver", "toolkit"}, "driver", "devicePlugin", "exporter", "toolkit")
		}, ""},
		{"a node is gone", func(n map[string]upgradeplan.Node) { delete(n, "n-3") }, "node n-3 does not exist"},
		{"a component is gone", func(n map[string]upgradeplan.Node) { set(n, "n-1", []string{"driver"}, "driver", "exporter") },
			"n-1_devicePlugin_replace: the component no longer runs on the node"},
		{"another component uses the device", func(n map[string]upgradeplan.Node) {
			set(n, "n-1", []string{"driver"}, "driver", "devicePlugin", "exporter", "gfd")
		}, "n-1_gfd_replace is needed now, but is not in job-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Read(object(t, planned, 1, 0), upgradeplan.DefaultBook())
			if err != nil {
				t.Fatal(err)
			}
			now := fleet(3, always("driver"))
			tt.move(now)
			err = p.Check(now, upgradeplan.DefaultBook())
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want %q, got: %v", tt.want, err)
			}
		})
	}
}

func set(nodes map[string]upgradeplan.Node, name string, changed []string, deployed ...string) {
	nodes[name] = upgradeplan.Node{Name: name, Deployed: deployed, Changed: changed}
}

// FuzzParse: whatever is accepted keeps the rules, and is accepted again after it was written.
func FuzzParse(f *testing.F) {
	f.Add([]byte(text(f, object(f, fleet(4, always("driver")), 2, 1))))
	f.Add([]byte("apiVersion: topsops.enflame.com/v1\nkind: UpgradePlan\nmetadata: {name: p}\nspec: {wanted: {}, gcuResource: a, revision: b, batches: [{name: x, jobs: [{job: j, nodes: [n]}]}], jobs: [{name: j, stages: [[nfd_replace]]}]}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		book := upgradeplan.DefaultBook()
		p, err := Parse(in, book)
		if err != nil {
			return
		}
		if err := p.Mission().Validate(); err != nil {
			t.Fatalf("an accepted plan is no mission: %v", err)
		}
		for job := range slices.Values(slices.Concat(p.Mission()...)) {
			evicts, changes := strings.Contains(fmt.Sprint(job), "_node_"+upgradeplan.ActionEvict), book.Disruption(p.jobs[p.nodes[job.Host()].job.name].components, false)
			if changes != upgradeplan.ReplacePod && !evicts {
				t.Fatalf("%s is not emptied for %s", job.Host(), changes)
			}
		}
		out, err := yaml.Marshal(p.Object)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(out, book); err != nil && len(out) <= MaxBytes {
			t.Fatalf("it is not accepted again: %v", err)
		}
	})
}

// Pods of a light job are replaced in another order than that of its stages.
func TestTheResultOfTheTasksOfAFailedNode(t *testing.T) {
	for _, tt := range []struct {
		name   string
		job    []string
		failed topsv1.FailedNode
		want   topsv1.OperationResult
	}{
		{"contract 93: a pod crash-loops, and another one was replaced before", []string{"devicePlugin", "exporter"}, topsv1.FailedNode{Task: "n-1_exporter_replace", Done: []string{"devicePlugin"}},
			topsv1.OperationResult{Done: []string{"n-1_devicePlugin_replace"}, Fail: []string{"n-1_exporter_replace"}}},
		{"contract 93: that of a later stage came first", []string{"devicePlugin", "exporter"}, topsv1.FailedNode{Task: "n-1_exporter_replace"},
			topsv1.OperationResult{Fail: []string{"n-1_exporter_replace"}, Undo: []string{"n-1_devicePlugin_replace"}}},
		{"contract 93: another task failed than those of the plan", []string{"devicePlugin", "exporter"}, topsv1.FailedNode{Done: []string{"exporter"}},
			topsv1.OperationResult{Done: []string{"n-1_exporter_replace"}, Undo: []string{"n-1_devicePlugin_replace"}}},
		{"contract 93: it is a task that its job does not have", []string{"driver"}, topsv1.FailedNode{Task: "n-1_gfd_replace"},
			topsv1.OperationResult{Undo: []string{"n-1_driver_prepull", "n-1_node_precheck", "n-1_node_cordon", "n-1_node_evict",
				"n-1_driver_replace", "n-1_driver_verify", "n-1_devicePlugin_replace", "n-1_allocatable_verify", "n-1_exporter_replace", "n-1_node_soak", "n-1_node_uncordon"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := object(t, fleet(1, always(tt.job...)), 1, 0)
			now := metav1.Now()
			tt.failed.Node = "n-1"
			o.Status = topsv1.UpgradePlanStatus{Time: &now, Fail: 1, Failed: []topsv1.FailedNode{tt.failed}}
			p, err := Read(o, upgradeplan.DefaultBook())
			if err != nil {
				t.Fatal(err)
			}
			sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(tt.want, p.Results()[0].Tasks, sorted); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
		})
	}
}

// Contract 93.
func TestTheResultOfEachNodeAndTask(t *testing.T) {
	o := object(t, fleet(5, always("driver")), 5, 0)
	now := metav1.Now()
	o.Generation = 2
	o.Status = topsv1.UpgradePlanStatus{ObservedGeneration: 2, Time: &now, Done: 2, Fail: 1, Undo: 2, Undone: []string{"n-3"},
		Failed: []topsv1.FailedNode{{Node: "n-2", Task: "n-2_driver_verify"}}}
	p, err := Read(o, upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range p.Results() {
		got = append(got, fmt.Sprintf("%s %s: %d %v %d", r.Node, r.Result, len(r.Tasks.Done), r.Tasks.Fail, len(r.Tasks.Undo)))
	}
	// One more node is undone than is named: it is one of those after the last one that is named.
	want := []string{"n-1 done: 11 [] 0", "n-2 fail: 5 [n-2_driver_verify] 5", "n-3 undo: 0 [] 11", "n-4 unknown: 0 [] 11", "n-5 unknown: 0 [] 11"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	// The lists are cut one by one, in the order of the plan: only before the end of each that is cut, who is not named is done.
	for _, tt := range []struct {
		name, failed, undone string
		fail, undo           int32
		want                 string
	}{
		{"all are named", "n-2", "n-3", 1, 1, "done fail undo done done"},
		{"failed ones are not named, though all undone ones are", "n-2", "n-5", 2, 1, "done fail unknown unknown undo"},
		{"no failed one is named", "", "n-5", 1, 1, "unknown unknown unknown unknown undo"},
		{"both are cut, undone ones earlier", "n-4", "n-1", 2, 2, "undo unknown unknown fail unknown"},
		{"both are cut, failed ones earlier", "n-1", "n-4", 2, 2, "fail unknown unknown undo unknown"},
	} {
		o.Status.Fail, o.Status.Failed, o.Status.Undo, o.Status.Undone = tt.fail, nil, tt.undo, []string{tt.undone}
		if tt.failed != "" {
			o.Status.Failed = []topsv1.FailedNode{{Node: tt.failed}}
		}
		var got []string
		for _, r := range p.Results() {
			got = append(got, string(r.Result))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: results %v, want %s", tt.name, got, tt.want)
		}
	}
	if o.Generation = 3; p.Results() != nil {
		t.Error("a plan that was edited since has the result of the one before")
	}
}
