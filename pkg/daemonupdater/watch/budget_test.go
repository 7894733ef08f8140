package watch

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

// passes is a queue that only counts: groups that are due at once, and that may share a pass.
type passes struct {
	workqueue.TypedRateLimitingInterface[observed.Group]
	now    time.Time
	atOnce int
	later  map[time.Time]bool
	groups map[observed.Group]bool
}

// AddAfter implements the queue.
func (p *passes) AddAfter(g observed.Group, wait time.Duration) {
	p.groups[g] = true
	if wait == 0 {
		p.atOnce++
	} else {
		p.later[p.now.Add(wait).Truncate(overBudget)] = true
	}
}

func watchOf(t *testing.T, p *passes, objects ...client.Object) Groups {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return Groups{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Changed: &ChangedNodes{}, Clock: func() time.Time { return p.now }}
}

// asking returns the NodeUpgrade of a node that asks for the driver, differently each time.
func asking(node string, driver *appsv1.DaemonSet, n int) *topsv1.NodeUpgrade {
	return fixture.NodeUpgrade(node, fixture.Request(fmt.Sprint(n), driver, fixture.PodOn(driver, node, fixture.OldHash)))
}

// TestAnAgentHasABudget: one writes ten times a second for a minute, another one once meanwhile.
func TestAnAgentHasABudget(t *testing.T) {
	p := &passes{now: fixture.Epoch, later: map[time.Time]bool{}, groups: map[observed.Group]bool{}}
	driver := fixture.DaemonSet("driver")
	handler := watchOf(t, p, driver).enqueueWithinBudget()
	write := func(node string, n int) {
		handler.Update(context.Background(), event.UpdateEvent{ObjectOld: fixture.NodeUpgrade(node), ObjectNew: asking(node, driver, n)}, p)
	}
	for n := range 600 {
		write("hostile", n)
		p.now = p.now.Add(100 * time.Millisecond)
	}
	if got, most := p.atOnce+len(p.later), 6*(budgetWrites+10); got > most {
		t.Errorf("600 writes cause %d passes, want %d at most", got, most)
	}
	before := p.atOnce
	write("other", 1)
	if p.atOnce != before+1 {
		t.Error("the request of the other node waits")
	}
	operated := asking("hostile", driver, 600)
	operated.Status.Tasks = []topsv1.UpgradeTask{fixture.TaskIn("600", topsv1.TaskRunning)}
	for range budgetWrites {
		write("hostile", 600)
	}
	before = p.atOnce
	handler.Update(context.Background(), event.UpdateEvent{ObjectOld: asking("hostile", driver, 600), ObjectNew: operated}, p)
	if p.atOnce == before {
		t.Error("what the operator writes about the hostile node waits")
	}
}

func TestInventedDaemonSetsCostOnePass(t *testing.T) {
	p := &passes{now: fixture.Epoch, later: map[time.Time]bool{}, groups: map[observed.Group]bool{}}
	invented := fixture.NodeUpgrade("a")
	for i := range 64 {
		invented.Status.Requests = append(invented.Status.Requests, asking("a", fixture.DaemonSet(fmt.Sprint("invented-", i)), i).Status.Requests...)
	}
	if groups := watchOf(t, p).AskedFor(t.Context(), invented); len(groups) != 1 || groups[0] != (observed.Group{Kind: observed.KindNode, Name: "a"}) {
		t.Errorf("wakes %v, want the node alone", groups)
	}
}
