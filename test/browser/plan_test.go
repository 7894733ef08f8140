package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// blocked is why the operation of a node failed.
const blocked = "PodDisruptionBudget ml/training allows no eviction of pod ml/training-0"

// follow makes the fleet follow a plan with a batch for each third of its nodes, the first of which is done.
func (f *fleet) follow(t *testing.T) *topsv1.UpgradePlan {
	t.Helper()
	var nodes []upgradeplan.Node
	byName := map[string]upgradeplan.Node{}
	for i := range f.nodes {
		n := upgradeplan.Node{Name: f.node(i), Deployed: []string{"driver", "devicePlugin"}, Changed: []string{"driver"}}
		nodes, byName[n.Name] = append(nodes, n), n
	}
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), nodes, f.updated())
	check(t, err)
	spec, err := planfile.Of(upgradeplan.DefaultBook(), mission, byName, nil, 90)
	check(t, err)
	spec.GcuResource, spec.Revision = f.name, revision
	plan := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: f.name + "-night"}, Spec: spec,
		Status: topsv1.UpgradePlanStatus{ObservedGeneration: 1, Time: ptr.To(metav1.Now()), Done: int32(f.updated()), Undo: int32(f.nodes - f.updated())}}
	for i := f.updated(); i < f.nodes; i++ {
		plan.Status.Undone = append(plan.Status.Undone, f.node(i))
	}
	f.create(plan)
	for i, b := range spec.Batches {
		wave := topsv1.WaveStatus{Name: plan.Name + "/" + b.Name, Total: int32(f.updated())}
		if i == 0 {
			wave.Updated, wave.CompletedTime = wave.Total, ptr.To(metav1.Now())
		}
		f.rollout.Status.Waves = append(f.rollout.Status.Waves[:i:i], wave)
	}
	f.rollout.Status.Waiting[0].Reason, f.rollout.Status.Waiting[0].Message = "WaveNotReached", "earlier batches of the plan come first"
	f.rollout.Status.Conditions[0].Reason, f.rollout.Status.Conditions[0].Message = "InProgress", fmt.Sprintf("%d of %d nodes are updated", f.updated(), f.nodes)
	check(t, f.Status().Update(t.Context(), f.rollout))
	gr := &topsv1.GcuResource{}
	check(t, f.Get(t.Context(), client.ObjectKey{Name: f.name}, gr))
	gr.Annotations[topsv1.AnnotationUpgradePlan] = plan.Name
	delete(gr.Annotations, topsv1.AnnotationUpgradePolicy)
	check(t, f.Update(t.Context(), gr))
	return plan
}

// operate creates the operation of a node that failed because a pod cannot leave it.
func (f *fleet) operate(i int) {
	f.t.Helper()
	node := f.node(i)
	at := func(minutes int) *metav1.Time {
		return ptr.To(metav1.NewTime(time.Date(2026, 11, 26, 14, minutes, 0, 0, time.UTC)))
	}
	upgrade := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: topsv1.NodeUpgradeStatus{Operation: &topsv1.OperationStatus{
		ID: "op-1", Rollout: namespace + "/" + f.name, Phase: topsv1.OperationFailed, Held: true, Reason: "DrainTimeout", Message: blocked, StartTime: *at(0), Since: *at(9),
		Tasks: []topsv1.OperationTask{{Name: node + "_node_precheck", State: topsv1.OperationTaskDone, StartTime: at(0), EndTime: at(1)}, {Name: node + "_node_cordon", State: topsv1.OperationTaskDone, StartTime: at(1), EndTime: at(2)},
			{Name: node + "_node_evict", State: topsv1.OperationTaskFailed, StartTime: at(2), EndTime: at(9)}, {Name: node + "_driver_replace", State: topsv1.OperationTaskPending}}}}}
	upgrade.Spec.Operation = &topsv1.NodeOperation{ID: "op-1", Rollout: namespace + "/" + f.name, NodeUID: "uid", Granted: true,
		Targets: []topsv1.OperationTarget{{Component: "driver", Revision: revision, DaemonSet: topsv1.NamespacedRef{Namespace: namespace, Name: f.name, UID: "x"}}},
		Job:     []topsv1.JobStage{{topsv1.TaskName(node + "_node_evict")}, {topsv1.TaskName(node + "_driver_replace")}}}
	f.create(upgrade)
}

// TestAPlanIsDrawnWhileItRuns: as batches, jobs and tasks, with what is done, failed and not done; a node that failed shows its
// tasks with their times, and which pod cannot leave it.
func TestAPlanIsDrawnWhileItRuns(t *testing.T) {
	server := apiserver.Shared(t)
	f := newFleet(t, server.Client(t, apiserver.Admin), "planned", 12)
	plan := f.follow(t)
	p := open(t, startDashboard(t, server.As(apiserver.Admin)).url)
	const batches = `[...document.querySelectorAll('h4')].map(h => h.innerText).join('; ')`
	if got, want := eval[string](p, batches), []string{"batch-1", "Complete", "batch-2", "Open", "batch-3", "NotReached"}; !inOrder(got, want...) {
		t.Errorf("the batches are %q, want %q in them", got, want)
	}
	const task = `[...document.querySelectorAll('ol.stages')].map(s => [...s.querySelectorAll('.task')].find(t => t.innerText.startsWith('node_evict')).innerText).join('; ')`
	if got := eval[string](p, task); !inOrder(got, "node_evict 4 done", "node_evict 4 not done", "node_evict 4 not done") {
		t.Errorf("evictions are drawn as %q", got)
	}

	failed := f.updated()
	f.operate(failed)
	f.failAs(failed, "OperationFailed", "DrainTimeout: "+blocked)
	plan.Status.Fail, plan.Status.Undo, plan.Status.Undone = 1, plan.Status.Undo-1, plan.Status.Undone[1:]
	plan.Status.Failed = []topsv1.FailedNode{{Node: f.node(failed), Task: f.node(failed) + "_node_evict", Message: "DrainTimeout"}}
	check(t, f.Status().Update(t.Context(), plan))
	p.awaits(task + ".includes('1 failed')")
	p.awaits(cellOf(f.node(failed)) + ".classList.contains('failed')")
	pictureOf(p, `section[aria-labelledby="gr-planned"]`, "dashboard-plan.png")

	p.do(chromedp.Click(fmt.Sprintf(`a.cell[href$="name=%s"]`, f.node(failed))))
	p.awaits("!document.getElementById('detail').hidden")
	if said := eval[string](p, "document.getElementById('detail').innerText"); !inOrder(said, "ml/training-0", "_node_evict", "Failed", "2026-11-26 14:02:00 UTC", "2026-11-26 14:09:00 UTC") {
		t.Errorf("the node shows\n%s", said)
	}
	if task := eval[string](p, `document.querySelector('#detail [data-verb="retry"]')?.dataset.target ?? ''`); task != f.node(failed)+"_node_evict" {
		t.Errorf("the task to retry is %q", task)
	}
	pictureOf(p, "#detail", "dashboard-node.png")

	if cells := p.names("complementary", "heading", "button", "image", "region")["link"]; !slices.Contains(cells, f.node(failed)+": failed (OperationFailed), stuck") {
		t.Errorf("the links are called %q", cells)
	}
	p.asks(`#detail [data-verb="hold"]`)
	if dialogs := p.names("dialog")["dialog"]; len(dialogs) != 1 || !strings.Contains(dialogs[0], "Hold "+f.node(failed)) {
		t.Errorf("the dialog is called %q", dialogs)
	}
}

// inOrder reports whether a text has some words in this order.
func inOrder(text string, words ...string) bool {
	for _, w := range words {
		_, after, found := strings.Cut(text, w)
		if !found {
			return false
		}
		text = after
	}
	return true
}
