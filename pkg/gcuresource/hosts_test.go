package gcuresource

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/fixture"
)

// passesOverHosts is a queue whose passes begin when they are due, and read the hosts.
type passesOverHosts struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	now time.Time
	due map[time.Time]bool
}

// AddAfter implements the queue.
func (p *passesOverHosts) AddAfter(_ reconcile.Request, wait time.Duration) {
	p.due[p.now.Add(wait).Truncate(max(wait, 100*time.Millisecond))] = true // those that wait share a pass
}

// TestAnAgentDoesNotWakeEveryGcuResource: an agent reports another driver ten times a second for a
// minute, while passes happen for other reasons. They do not read all NodeUpgrades each time, and the
// last report is not missed.
func TestAnAgentDoesNotWakeEveryGcuResource(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	upgrade := fixture.NodeUpgrade("hostile")
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(upgrade, &topsv1.GcuResource{ObjectMeta: fixture.NodeUpgrade("fleet").ObjectMeta}).Build()
	reads := 0
	counting := interceptor.NewClient(store, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*topsv1.NodeUpgradeList); ok {
			reads++
		}
		return c.List(ctx, list, opts...)
	}})
	p := &passesOverHosts{now: fixture.Epoch, due: map[time.Time]bool{}}
	r := &Reconciler{Client: counting, Clock: func() time.Time { return p.now }}
	handler, cache := r.ofHosts(requester{counting}), state.NewCache()
	driver := func() string {
		hosts, err := r.stateReader().readHosts(t.Context(), cache)
		if err != nil {
			t.Fatal(err)
		}
		return hosts["hostile"].Driver
	}
	driver()
	for n := range 600 {
		after := upgrade.DeepCopy()
		after.Status.Host = &topsv1.HostReport{DriverVersion: fmt.Sprint(n)}
		if err := store.Update(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: upgrade, ObjectNew: after}, p)
		upgrade = after
		driver()
		p.now = p.now.Add(100 * time.Millisecond)
	}
	if most := 6 * 31; len(p.due) > most || reads > most {
		t.Errorf("600 writes cause %d passes, and %d reads of all NodeUpgrades; want %d at most", len(p.due), reads, most)
	}
	p.now = p.now.Add(time.Second)
	if got := driver(); got != "599" {
		t.Errorf("after the last pass the driver is %q, want 599", got)
	}
}
