package nodeupgrade

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
)

// patience is how long a test waits for the manager.
const patience = 90 * time.Second

// manage runs the controller in a manager, with its caches and RBAC rights.
func (s *stage) manage() {
	s.t.Helper()
	mgr, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme: s.scheme, Metrics: server.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	})
	s.must(err)
	evictor, err := drain.NewEvictor(mgr.GetConfig(), mgr.GetHTTPClient())
	s.must(err)
	registry := prometheus.NewRegistry()
	s.must(New(Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Machine: s.machine, Clock: time.Now,
		Recorder: mgr.GetEventRecorder(topsv1.ManagedBy), Metrics: NewMetrics(registry),
		Drainer: drain.Drainer{Live: mgr.GetAPIReader(), Evictor: evictor, Metrics: drain.NewMetrics(registry)},
	}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			s.t.Errorf("the manager failed: %v", err)
		}
	})
}

// eventually runs the world until a condition holds.
func (s *stage) eventually(what string, is func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.ctx, 300*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		s.now = time.Now()
		s.world()
		return is(), nil
	})
	if err != nil {
		s.t.Fatalf("%s: %v; it is %+v", what, err, s.upgrade().Status.Operation)
	}
}

// TestTheControllerIsWokenByWhatItLooksAt: only the manager calls Reconcile.
func TestTheControllerIsWokenByWhatItLooksAt(t *testing.T) {
	s := newStage(t, driver, plugin)
	s.workload("train")
	s.orphan("gone")
	s.manage()
	s.eventually("the sweep at the start", func() bool { return s.marks() == "" })
	s.publish(driver, "v2")
	s.offer("op1", driver)
	s.eventually("the end of the operation", func() bool {
		op := s.upgrade().Status.Operation
		return op != nil && op.Phase.Final()
	})
	if got := s.upgrade().Status.Operation; got.Phase != topsv1.OperationDone {
		t.Fatalf("%s %s %s", got.Phase, got.Reason, got.Message)
	}
	if got := s.marks() + s.revisions(); got != "devicePlugin v1, driver v2" {
		t.Error(got)
	}
	s.eventually("the events", func() bool {
		var list eventsv1.EventList
		s.must(s.admin.List(s.ctx, &list))
		reasons := map[string]bool{}
		for _, e := range list.Items {
			if e.Regarding.Kind == "NodeUpgrade" && e.Regarding.Name == s.node {
				reasons[e.Reason] = true
			}
		}
		return reasons["Started"] && reasons["Done"]
	})
	s.publish(driver, "v3")
	s.silent = true
	s.offer("op2", driver)
	s.eventually("its precheck", func() bool { return s.upgrade().Status.Operation.ID == "op2" })
	s.silent = false
	s.eventually("the second cordon", func() bool { return s.marks() != "" })
	s.must(s.admin.Delete(s.ctx, s.upgrade(), client.PropagationPolicy("Background")))
	err := wait.PollUntilContextTimeout(s.ctx, 300*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return s.marks() == "", nil
	})
	if err != nil {
		t.Errorf("after the NodeUpgrade was deleted: %s", s.marks())
	}
}
