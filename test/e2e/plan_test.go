package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// planNodes is the number of nodes of the plan.
const planNodes = 40

// mission is an upgrade by a plan.
type mission struct {
	*drivers
	file string
}

// A person writes the plan of an upgrade, cuts it, moves nodes between batches, has it checked,
// and runs it batch by batch. One node is offline, and one fails. The result is {done, fail, undo}
// until both are back, and then {done}.
//
// Contract 93 and 96.
func TestAPersonRunsAnUpgradeByAPlan(t *testing.T) {
	s, ctx := enterOwn(t, "planned", planNodes, true)
	name := s.name("mission")
	s.policy(ctx, t, "mission", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(planNodes / 4)), LostDeadlineSeconds: ptr.To[int32](1),
		Failure: &topsv1.FailurePolicy{Threshold: ptr.To(intstr.FromInt32(planNodes))}})
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: s.underPolicy("mission")}, Spec: topsv1.GcuResourceSpec{GFD: s.component(name, "v1")}}
	s.create(ctx, t, gr.DeepCopy())
	m := &mission{&drivers{stage: s, t: t, name: name}, filepath.Join(t.TempDir(), "plan.yaml")}
	m.reaches(ctx, "deployed", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == planNodes })

	off := s.nodes[planNodes-1]
	if _, err := s.NodesOff(ctx, off); err != nil {
		t.Fatal(err)
	}
	gr.Spec.GFD.Version = "v2"
	spec := filepath.Join(t.TempDir(), "gr.yaml")
	m.write(spec, gr)
	plan := m.plan(ctx, spec)
	cut, fails := m.edit(plan)
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
func (m *mission) plan(ctx context.Context, spec string) *topsv1.UpgradePlan {
	m.t.Helper()
	plan := &topsv1.UpgradePlan{}
	if err := yaml.UnmarshalStrict([]byte(m.gcu(ctx, m.t, m.Kubeconfig, 0, nil, "plan", "-f", spec, "-o", "yaml")), plan); err != nil {
		m.t.Fatal(err)
	}
	var sizes []int
	for _, b := range plan.Spec.Batches {
		sizes = append(sizes, len(b.Jobs[0].Nodes))
	}
	if !slices.Equal(sizes, []int{10, 10, 10, 9, 1}) || plan.Spec.Batches[4].Name != "offline" || len(plan.Spec.Jobs) != 1 {
		m.t.Fatalf("the plan has batches of %v nodes, and jobs %+v", sizes, plan.Spec.Jobs)
	}
	return plan
}

// edit removes a node, moves another one to an earlier batch, and gives a third one a batch of its
// own, in which it will fail.
func (m *mission) edit(plan *topsv1.UpgradePlan) (cut, fails string) {
	b := plan.Spec.Batches
	first, last := &b[0].Jobs[0], &b[3].Jobs[0]
	cut, fails = last.Nodes[0], last.Nodes[1]
	first.Nodes, last.Nodes = append(first.Nodes, last.Nodes[2]), last.Nodes[3:]
	own := topsv1.PlannedBatch{Name: "own", Jobs: []topsv1.PlannedNodes{{Job: last.Job, Nodes: []string{fails}}}}
	plan.Spec.Batches = slices.Insert(b, 4, own)
	return cut, fails
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
	if err := m.SetOnline(ctx, fails, false); err != nil { // its next pod never becomes Ready
		m.t.Fatal(err)
	}
	m.approve(ctx, "own", updated)
	m.result(ctx, plan, func(r *topsv1.UpgradePlanStatus) bool {
		return r.Done == 37 && r.Fail == 1 && r.Undo == 1 && len(r.Failed) == 1 && r.Failed[0].Node == fails && slices.Equal(r.Undone, []string{off})
	})
	m.gcu(ctx, m.t, m.Kubeconfig, 0, []string{plan.Name, "in force", fails + " failed", "undo: " + off}, "history", m.name, "--plan")
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

// ends brings both nodes back: the one that failed becomes available, and the other one is
// upgraded in its batch.
func (m *mission) ends(ctx context.Context, plan *topsv1.UpgradePlan, off, fails string) {
	m.t.Helper()
	if _, err := m.NodesOn(ctx, off, fails); err != nil {
		m.t.Fatal(err)
	}
	m.approve(ctx, "offline", 38)
	m.result(ctx, plan, func(r *topsv1.UpgradePlanStatus) bool { return r.Done == 39 && r.Fail == 0 && r.Undo == 0 })
}
