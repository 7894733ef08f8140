package nodeupgrade

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// TestNothingIsEvictedForAnOperationThatIsOver: a process is suspended after it decided on another pass of a drain, with
// nothing new to record. Meanwhile another one ends the operation, and somebody cordons the node.
func TestNothingIsEvictedForAnOperationThatIsOver(t *testing.T) {
	s := newStage(t, driver, plugin)
	pod := s.workload("train")
	s.publish(driver, "v2")
	s.offer("op1", driver)
	evicts := func(e operation.Effect) bool { return e.Kind == operation.Evict }
	var o *observation
	var d operation.Decision
	for range 30 {
		s.now = s.now.Add(turnTime)
		s.world()
		var err error
		o, err = s.r.observer.observe(s.ctx, s.node)
		s.must(err)
		d = s.machine.Next(o.facts)
		if slices.ContainsFunc(d.Effects, evicts) && equality.Semantic.DeepEqual(o.facts.Record, d.Record) {
			break
		}
		s.must(s.r.records.store(s.ctx, o, d))
		s.must(s.r.effects.carryOut(s.ctx, o, slices.DeleteFunc(d.Effects, evicts)))
	}
	if !slices.ContainsFunc(d.Effects, evicts) {
		t.Fatalf("no drain: %+v", d.Record.Operation)
	}
	suspended := s.r
	s.start()
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation = nil })
	if how := s.untilOver(); how != "Aborted Withdrawn" {
		t.Fatalf("it ends %s", how)
	}
	node := s.readNode()
	before := node.DeepCopy()
	node.Spec.Unschedulable = true
	s.must(s.admin.Patch(s.ctx, node, client.MergeFrom(before)))
	err := suspended.records.store(s.ctx, o, d)
	if err == nil {
		err = suspended.effects.carryOut(s.ctx, o, d.Effects)
	}
	s.must(s.admin.Get(s.ctx, client.ObjectKeyFromObject(pod), pod))
	if pod.DeletionTimestamp != nil || !denial.IsConflict(err) {
		t.Errorf("the pod is evicted after the operation is over: %v", err)
	}
}
