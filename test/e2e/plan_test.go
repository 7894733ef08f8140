package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/harness"
)

// planNodes is the number of nodes of the plan.
const planNodes = 40

// mission is an upgrade by a plan.
type mission struct {
	*drivers
	file string
}

// A person writes the plan of an upgrade, cuts it, moves nodes between batches, has it checked,
// and runs it batch by batch. One node is offline, and on another one a new pod crash-loops. The result is
// {done, fail, undo}, of the fleet, of each node and of each task, until both are mended, and then {done}.
//
// Contract 93 and 96.
func TestAPersonRunsAnUpgradeByAPlan(t *testing.T) {
	s, ctx := enterOwn(t, "planned", planNodes, true)
	name := s.name("mission")
	s.policy(ctx, t, "mission", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(planNodes / 4)),
		Failure: &topsv1.FailurePolicy{Threshold: ptr.To(intstr.FromInt32(planNodes))}})
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: s.underPolicy("mission")}, Spec: topsv1.GcuResourceSpec{DevicePlugin: s.component(name+"-plugin", "v1"), GFD: s.component(name, "v1")}}
	s.create(ctx, t, gr.DeepCopy())
	m := &mission{&drivers{stage: s, t: t, name: name}, filepath.Join(t.TempDir(), "plan.yaml")}
	m.reaches(ctx, "deployed", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == planNodes })

	off := s.nodes[planNodes-1]
	if _, err := s.NodesOff(ctx, off); err != nil {
		t.Fatal(err)
	}
	gr.Spec.DevicePlugin.Version, gr.Spec.GFD.Version = "v2", "v2"
	fails := m.plan(ctx, gr).Spec.Batches[3].Jobs[0].Nodes[1]
	gr.Spec.GFD.Version += harness.CrashingOn(fails)
	plan := m.plan(ctx, gr)
	cut := m.edit(plan, fails)
	m.write(m.file, plan)
	m.run(ctx, plan, off, cut, fails)
	m.ends(ctx, plan, off, fails)
}

func (m *mission) write(file string, object any) {
	m.t.Helper()
	text, err := yaml.Marshal(object)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// plan writes the plan: four batches of the reachable nodes, and one of the offline node.
func (m *mission) plan(ctx context.Context, gr *topsv1.GcuResource) *topsv1.UpgradePlan {
	m.t.Helper()
	plan := m.planOf(ctx, gr)
	var sizes []int
	for _, b := range plan.Spec.Batches {
		sizes = append(sizes, len(b.Jobs[0].Nodes))
	}
	if !slices.Equal(sizes, []int{10, 10, 10, 9, 1}) || plan.Spec.Batches[4].Name != "offline" || len(plan.Spec.Jobs) != 1 {
		m.t.Fatalf("the plan has batches of %v nodes, and jobs %+v", sizes, plan.Spec.Jobs)
	}
	return plan
}

// planOf writes the plan of a spec.
func (m *mission) planOf(ctx context.Context, gr *topsv1.GcuResource) *topsv1.UpgradePlan {
	m.t.Helper()
	spec := filepath.Join(m.t.TempDir(), "gr.yaml")
	m.write(spec, gr)
	plan := &topsv1.UpgradePlan{}
	if err := yaml.UnmarshalStrict([]byte(m.gcu(ctx, m.t, m.Kubeconfig, 0, nil, "plan", "-f", spec, "-o", "yaml")), plan); err != nil {
		m.t.Fatal(err)
	}
	return plan
}

// edit removes a node, moves another one to an earlier batch, and gives a third one a batch of its
// own, in which it will fail.
func (m *mission) edit(plan *topsv1.UpgradePlan, fails string) (cut string) {
	m.t.Helper()
	b := plan.Spec.Batches
	first, last := &b[0].Jobs[0], &b[3].Jobs[0]
	if cut = last.Nodes[0]; last.Nodes[1] != fails {
		m.t.Fatalf("node %s is in another place than planned: %v", fails, last.Nodes)
	}
	first.Nodes, last.Nodes = append(first.Nodes, last.Nodes[2]), last.Nodes[3:]
	own := topsv1.PlannedBatch{Name: "own", Jobs: []topsv1.PlannedNodes{{Job: last.Job, Nodes: []string{fails}}}}
	plan.Spec.Batches = slices.Insert(b, 4, own)
	return cut
}

// run follows the plan step by step, until one node has failed.
func (m *mission) run(ctx context.Context, plan *topsv1.UpgradePlan, off, cut, fails string) {
	m.t.Helper()
	broken := plan.DeepCopy()
	broken.Spec.Jobs[0].Stages = append(broken.Spec.Jobs[0].Stages, topsv1.PlannedStage{"node_cordon"})
	m.write(m.file+".broken", broken)
	m.gcu(ctx, m.t, m.Kubeconfig, 4, []string{"node_cordon belongs to no component that the job replaces"}, "plan", "--check", m.file+".broken")
	m.gcu(ctx, m.t, m.Kubeconfig, 0, []string{"can be run", "nodes: 39"}, "plan", "--check", m.file)
	m.gcu(ctx, m.t, m.Kubeconfig, 0, []string{"is written: 39 nodes, batches: 6"}, "upgrade", "--plan", m.file, "--step")
	updated := int32(0)
	for i, batch := range []string{"batch-1", "batch-2", "batch-3", "batch-4"} {
		m.approve(ctx, batch, updated)
		updated += int32(len(plan.Spec.Batches[i].Jobs[0].Nodes))
	}
	m.awaits(ctx, "own", updated)
	m.approve(ctx, "own", updated)
	m.result(ctx, plan, func(r *topsv1.UpgradePlanStatus) bool {
		return r.Done == 37 && r.Fail == 1 && r.Undo == 1 && len(r.Failed) == 1 && r.Failed[0].Node == fails && slices.Equal(r.Undone, []string{off})
	})
	m.keep(ctx, m.t, "plan.yaml", nil)
	m.gcu(ctx, m.t, m.Kubeconfig, 0, []string{plan.Name, "in force", fails + "_gfd_replace failed", "undo: " + off}, "history", m.name, "--plan")
	m.told(ctx, plan, off, fails)
	m.gcu(ctx, m.t, m.Kubeconfig, 0, []string{"LeftOut", cut}, "nodes", m.name, "--state", "held")
}

// awaits waits until a batch awaits approval, with that many nodes updated.
func (m *mission) awaits(ctx context.Context, batch string, updated int32) {
	m.t.Helper()
	m.reaches(ctx, "awaiting approval of "+batch, func(r *topsv1.DaemonRolloutStatus) bool {
		return r.Updated == updated && slices.ContainsFunc(r.Waiting, func(w topsv1.WaitingNote) bool {
			return w.Reason == "AwaitingApproval" && strings.HasPrefix(w.Message, "batch "+batch+" awaits approval")
		})
	})
}

// approve approves a batch once it is reached.
func (m *mission) approve(ctx context.Context, batch string, updated int32) {
	m.t.Helper()
	m.awaits(ctx, batch, updated)
	m.gcu(ctx, m.t, m.Kubeconfig, 0, []string{"is approved"}, "approve", m.name, batch)
}

// result waits until is returns true for the result of the plan.
func (m *mission) result(ctx context.Context, plan *topsv1.UpgradePlan, is func(*topsv1.UpgradePlanStatus) bool) {
	m.t.Helper()
	m.eventually(ctx, m.t, func() error {
		var stored topsv1.UpgradePlan
		if err := m.Client.Get(ctx, client.ObjectKey{Name: plan.Name}, &stored); err != nil {
			return err
		}
		if !is(&stored.Status) {
			return fmt.Errorf("the result is %+v", stored.Status)
		}
		return nil
	})
}

// told compares the result that is printed with what is known of the nodes: of the fleet, of each node and of each of its tasks.
func (m *mission) told(ctx context.Context, plan *topsv1.UpgradePlan, off, fails string) {
	m.t.Helper()
	var told struct{ Items []planfile.Result }
	if err := json.Unmarshal([]byte(m.gcu(ctx, m.t, m.Kubeconfig, 0, nil, "history", m.name, "--plan", "-o", "json")), &told); err != nil {
		m.t.Fatal(err)
	}
	if len(told.Items) != 1 || told.Items[0].Done != 37 || told.Items[0].Fail != 1 || told.Items[0].Undo != 1 {
		m.t.Fatalf("the result is %+v", told.Items)
	}
	var want []planfile.NodeResult
	for _, b := range plan.Spec.Batches {
		for _, node := range b.Jobs[0].Nodes {
			plugin, gfd := node+"_devicePlugin_replace", node+"_gfd_replace"
			r := planfile.NodeResult{Node: node, Batch: b.Name, Result: planfile.Done, Tasks: topsv1.OperationResult{Done: []string{plugin, gfd}}}
			switch node {
			case off:
				r.Result, r.Tasks = planfile.NotDone, topsv1.OperationResult{Undo: []string{plugin, gfd}}
			case fails:
				r.Result, r.Tasks = planfile.Fail, topsv1.OperationResult{Done: []string{plugin}, Fail: []string{gfd}}
			}
			want = append(want, r)
		}
	}
	if diff := cmp.Diff(want, told.Items[0].Nodes); diff != "" {
		m.t.Errorf("results of nodes and tasks (-want +got):\n%s", diff)
	}
}

// ends brings the offline node back, which is upgraded in its batch, and mends the other one: its pod becomes available.
func (m *mission) ends(ctx context.Context, plan *topsv1.UpgradePlan, off, fails string) {
	m.t.Helper()
	if _, err := m.NodesOn(ctx, off); err != nil {
		m.t.Fatal(err)
	}
	pod := m.podsByNode(ctx, "app.kubernetes.io/name", m.name)[fails]
	mended := pod.DeepCopy()
	mended.Labels[harness.BehaviorLabel] = "mended"
	if err := m.Client.Patch(ctx, mended, client.MergeFrom(&pod)); err != nil {
		m.t.Fatal(err)
	}
	m.approve(ctx, "offline", 38)
	m.result(ctx, plan, func(r *topsv1.UpgradePlanStatus) bool { return r.Done == 39 && r.Fail == 0 && r.Undo == 0 })
}
