package observed

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/fixture"
)

// planFor is a plan that upgrades the driver of node b, without pulling its image ahead, and the
// exporter of node a before.
func planFor(t *testing.T, edit func(*topsv1.UpgradePlan)) *planfile.Plan {
	t.Helper()
	object := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "mission", UID: "uid-mission", Generation: 3}, Spec: topsv1.UpgradePlanSpec{
		GcuResource: "fleet", Revision: "fleet-2",
		Jobs: []topsv1.PlannedJob{
			{Name: "light", Stages: []topsv1.PlannedStage{{"exporter_replace"}}},
			{Name: "heavy", Stages: []topsv1.PlannedStage{{"node_precheck"}, {"node_cordon"}, {"node_evict"}, {"driver_replace"}, {"driver_verify"},
				{"allocatable_verify"}, {"exporter_replace"}, {"node_soak"}, {"node_uncordon"}}},
		},
		Batches: []topsv1.PlannedBatch{
			{Name: "first", Jobs: []topsv1.PlannedNodes{{Job: "light", Nodes: []string{"a"}}}},
			{Name: "second", Approval: topsv1.ApprovalManual, Jobs: []topsv1.PlannedNodes{{Job: "heavy", Nodes: []string{"b"}}}},
		},
	}}
	if edit != nil {
		edit(object)
	}
	plan, err := planfile.Read(object, upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// following is a gr with a driver and an exporter on three nodes, all outdated, that follows a plan.
func following(plan *planfile.Plan, edit func(*seen)) *world {
	s := seen{plan: Plan{Read: plan}, nodes: nil}
	for _, component := range []string{"driver", "exporter"} {
		ds := fixture.Annotate(fixture.ComponentOf(component), topsv1.AnnotationUpgradePlan, "mission")
		ds.Annotations[topsv1.AnnotationRevision] = "fleet-2"
		m := memberWith(ds)
		for _, node := range []string{"a", "b", "c"} {
			m.pods = append(m.pods, fixture.PodOn(ds, node, fixture.OldHash))
		}
		s.members = append(s.members, m)
	}
	for _, node := range []string{"a", "b", "c"} {
		s.nodes = append(s.nodes, fixture.Node(node))
	}
	if edit != nil {
		edit(&s)
	}
	return s.observe()
}

func TestAPlanSaysWhichNodesAndComponentsAreUpgraded(t *testing.T) {
	w := following(planFor(t, nil), nil)
	in := inputFrom(w)
	if in.Blocked != nil || in.Policy.Plan != "mission" || len(in.Policy.Batches) != 2 || in.Policy.Batches[0].Manual || !in.Policy.Batches[1].Manual {
		t.Fatalf("blocked %+v, policy %+v", in.Blocked, in.Policy)
	}
	for name, want := range map[string]struct {
		batch   int
		leftOut bool
		pods    []bool
	}{"a": {0, false, []bool{true, false}}, "b": {1, false, []bool{false, false}}, "c": {2, true, []bool{true, true}}} {
		n := w.fleet.Node(name)
		if got := []bool{n.Pods[0].LeftOut, n.Pods[1].LeftOut}; n.Batch != want.batch || n.LeftOut != want.leftOut || !slices.Equal(got, want.pods) {
			t.Errorf("node %s is in batch %d, left out %v, its pods %v; want %+v", name, n.Batch, n.LeftOut, got, want)
		}
	}
}

// Such a node joined after the plan was written: its runtime has to be restarted before its cards can be used.
func TestAPlanLeavesNoRestartOutOfANodeAtItsTargets(t *testing.T) {
	w := following(planFor(t, nil), func(s *seen) {
		for _, m := range s.members {
			m.pods[2] = fixture.PodOn(m.DaemonSet, "c", fixture.NewHash)
		}
	})
	in := inputFrom(w)
	n := w.fleet.Node("c")
	if n.Batch != 2 || n.LeftOut || n.Pods[0].LeftOut || n.Pods[1].LeftOut {
		t.Errorf("node c is in batch %d, left out %v, its pods %v and %v", n.Batch, n.LeftOut, n.Pods[0].LeftOut, n.Pods[1].LeftOut)
	}
	op, err := w.NewOperation(&in, testBook, n, "op")
	if err != nil || len(op.Job) == 0 {
		t.Errorf("its operation has %v, %v", op, err)
	}
}

// A restored backup of etcd gives generations out twice: nodes that are kept are not those of another content.
func TestNodesAreNotKeptThatWereReadByAnotherPlan(t *testing.T) {
	key := func(edit func(*topsv1.UpgradePlan)) string {
		w := following(planFor(t, edit), nil)
		in := inputFrom(w)
		return w.CacheKey(&in)
	}
	same := key(nil)
	if key(nil) != same || key(func(p *topsv1.UpgradePlan) { p.Spec.Batches[0].Jobs[0].Nodes = []string{"c"} }) == same {
		t.Errorf("the key of a plan with other nodes is %s as well, or that of the same is another", same)
	}
}

func TestAnOperationHasTheTasksOfItsPlan(t *testing.T) {
	w := following(planFor(t, nil), nil)
	in := inputFrom(w)
	op, err := w.NewOperation(&in, testBook, w.fleet.Node("b"), "op")
	if err != nil {
		t.Fatal(err)
	}
	var tasks []string
	for _, stage := range op.Job {
		for _, task := range stage {
			tasks = append(tasks, string(task))
		}
	}
	if slices.Contains(tasks, "b_driver_prepull") || !slices.Contains(tasks, "b_node_evict") || !slices.Contains(tasks, "b_node_soak") {
		t.Errorf("the operation has %v", tasks)
	}
}

func TestAPlanThatCannotBeFollowedBlocks(t *testing.T) {
	tests := []struct {
		name string
		plan *planfile.Plan
		edit func(*seen)
		want rollout.Blocked
	}{
		{"there is none", nil, nil, rollout.Blocked{Reason: "UpgradePlanNotFound", Message: `names UpgradePlan "mission", which does not exist`}},
		{"it breaks a rule", nil, func(s *seen) { s.plan.Invalid = errors.New("node_evict may not be left out") },
			rollout.Blocked{Reason: "InvalidUpgradePlan", Message: "UpgradePlan mission: node_evict may not be left out"}},
		{"it is for another gr", planFor(t, func(p *topsv1.UpgradePlan) { p.Spec.GcuResource = "other" }), nil,
			rollout.Blocked{Reason: "InvalidUpgradePlan", Message: "is for GcuResource other, not for fleet"}},
		{"it is for another spec", planFor(t, func(p *topsv1.UpgradePlan) { p.Spec.Revision = "fleet-1" }), nil,
			rollout.Blocked{Reason: "UpgradePlanOutdated", Message: "upgrades to revision fleet-1, but DaemonSet kube-system/enflame-driver is at revision fleet-2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputFrom(following(tt.plan, tt.edit))
			if in.Blocked == nil || in.Blocked.Reason != tt.want.Reason || !strings.Contains(in.Blocked.Message, tt.want.Message) || in.Policy.Plan != "" {
				t.Errorf("blocked by %+v, want %+v", in.Blocked, tt.want)
			}
		})
	}
}

// A DaemonSet that the rejected spec added leaves, and is a member until it is gone: the targets are not those of before.
func TestARollbackNeedsNoPlan(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(driver, exporter *appsv1.DaemonSet)
		want string
	}{
		"of all components": {func(_, _ *appsv1.DaemonSet) {}, ""},
		"of a spec that added one": {func(_, exporter *appsv1.DaemonSet) {
			exporter.Annotations[topsv1.AnnotationRevision], exporter.Annotations[topsv1.AnnotationRejectedRevision] = "fleet-2", ""
			exporter.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
		}, ""},
		"but another spec does, on some DaemonSets so far": {func(_, exporter *appsv1.DaemonSet) {
			exporter.Annotations[topsv1.AnnotationRevision], exporter.Annotations[topsv1.AnnotationRejectedRevision] = "fleet-3", ""
		}, daemonset.ReasonPlanOutdated},
		"but a person's own way back does": {func(driver, exporter *appsv1.DaemonSet) {
			delete(driver.Annotations, topsv1.AnnotationRejectedRevision)
			delete(exporter.Annotations, topsv1.AnnotationRejectedRevision)
		}, daemonset.ReasonPlanOutdated},
	} {
		t.Run(name, func(t *testing.T) {
			w := following(planFor(t, nil), func(s *seen) {
				for _, m := range s.members {
					m.DaemonSet.Annotations[topsv1.AnnotationRevision] = "fleet-1"
					m.DaemonSet.Annotations[topsv1.AnnotationRejectedRevision] = "fleet-2"
				}
				tt.edit(s.members[0].DaemonSet, s.members[1].DaemonSet)
			})
			w.Rollout.Status.Rollback = &topsv1.RolloutRollback{From: "r2", To: "r1", RejectedRevision: "fleet-2", GcuResourceRevision: "fleet-1"}
			got := ""
			in := inputFrom(w)
			if in.Blocked != nil {
				got = in.Blocked.Reason
			}
			if got != tt.want || in.Policy.Plan != "" {
				t.Errorf("blocked by %+v, plan %q; want %q", in.Blocked, in.Policy.Plan, tt.want)
			}
		})
	}
}

func TestTheFailedTaskIsThatOfTheLastOperationAtTheRevision(t *testing.T) {
	u := &topsv1.NodeUpgrade{}
	for _, r := range [][3]string{{"1", "n_driver_replace"}, {"1", "n_driver_verify"}, {"2", "n_node_soak"}, {"4", "n_driver_verify"}, {"4"}} {
		record := topsv1.OperationRecord{Revision: r[0], Phase: topsv1.OperationDone}
		if r[1] != "" {
			record.Phase, record.Result.Fail = topsv1.OperationFailed, []string{r[1]}
		}
		u.Status.History = append(u.Status.History, record)
	}
	u.Status.History = append(u.Status.History, topsv1.OperationRecord{Revision: "2", Purpose: topsv1.PurposeRollback, Phase: topsv1.OperationDone})
	for revision, want := range map[string]string{"1": "n_driver_verify", "2": "n_node_soak", "3": "", "4": ""} {
		if got := FailedTask(u, revision); got != want {
			t.Errorf("failed at %q at revision %s, want %q", got, revision, want)
		}
	}
	if got := FailedTask(nil, "1"); got != "" {
		t.Errorf("failed at %q without a NodeUpgrade", got)
	}
}

// A node whose pods are just replaced has no operation: what the failure blames is the failed task, and the pods say what is done.
func TestTheFailedTaskOfANodeWithoutAnOperation(t *testing.T) {
	for _, tt := range []struct {
		name string
		// replaced are the components whose pods are new, and blamed those that the failure names.
		replaced, blamed []string
		history          string
		task             string
		done             []string
	}{
		{"the first pod crash-loops", []string{"exporter"}, []string{"exporter"}, "", "a_exporter_replace", nil},
		{"the second one does", []string{"exporter", "gfd"}, []string{"gfd"}, "", "a_gfd_replace", []string{"exporter"}},
		{"the node went offline when both were there", []string{"exporter", "gfd"}, []string{"exporter"}, "", "a_exporter_replace", []string{"gfd"}},
		{"any may have failed it, and the second one is left", []string{"exporter"}, []string{"exporter", "gfd"}, "", "a_gfd_replace", []string{"exporter"}},
		{"what the plan leaves out failed it", []string{"exporter"}, []string{"driver"}, "", "", []string{"exporter"}},
		{"an operation failed", []string{"exporter"}, []string{"exporter"}, "a_driver_verify", "a_driver_verify", nil},
		{"nothing is known of it", nil, nil, "", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := planFor(t, func(p *topsv1.UpgradePlan) {
				p.Spec.Jobs[0].Stages = []topsv1.PlannedStage{{"exporter_replace", "gfd_replace"}}
			})
			w := following(plan, func(s *seen) {
				m := memberWith(fixture.Annotate(fixture.ComponentOf("gfd"), topsv1.AnnotationUpgradePlan, "mission"))
				m.DaemonSet.Annotations[topsv1.AnnotationRevision] = "fleet-2"
				m.pods = append(m.pods, fixture.PodOn(m.DaemonSet, "a", fixture.OldHash))
				s.members = append(s.members, m)
				for _, m := range s.members {
					if slices.Contains(tt.replaced, m.Component()) {
						m.pods[0] = fixture.PodOn(m.DaemonSet, "a", fixture.NewHash)
						if isLast := m.Component() == tt.replaced[len(tt.replaced)-1]; isLast && slices.Equal(tt.blamed, []string{m.Component()}) {
							m.pods[0].Status.Conditions = nil
						}
					}
				}
			})
			in := inputFrom(w)
			failure := rollout.Failure{Node: "a", UID: "uid-a", Reason: rollout.ReasonCrashLooping}
			if n := len(tt.replaced); n > 0 && len(tt.blamed) == 1 && tt.blamed[0] != tt.replaced[n-1] {
				failure.Reason = rollout.ReasonNodeLost // and it is still away
				away := *w.fleet.Node("a")
				away.Ready, away.ReadyEarliest = false, away.ReadySince
				w.fleet.Set(away, in.Now)
			}
			for _, m := range w.Members {
				if slices.Contains(tt.blamed, m.Component()) {
					failure.Targets = append(failure.Targets, rollout.Target{Member: m.Key(), Revision: fixture.NewHash})
				}
			}
			in.Ledger = rollout.Ledger{Revision: in.Revision, Failures: []rollout.Failure{failure}}
			d := w.fleet.Plan(in)
			if v, _ := d.Verdict("a"); v.State != rollout.Failed {
				t.Fatalf("node a is %s", v.State)
			}
			var upgrade *topsv1.NodeUpgrade
			if tt.history != "" {
				upgrade = &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{History: []topsv1.OperationRecord{{Revision: in.Revision, Result: topsv1.OperationResult{Fail: []string{tt.history}}}}}}
			}
			want := topsv1.FailedNode{Node: "a", Task: tt.task, Done: tt.done}
			if diff := cmp.Diff(want, w.Plan.FailedNode(w.Members, &d, "a", in.Revision, upgrade), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("failed node (-want +got):\n%s", diff)
			}
		})
	}
}
