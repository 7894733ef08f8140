package nodeupgrade

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// TestARestartWithoutARequestWaitsForAnIdleNode is about what strategy OTA does unasked.
func TestARestartWithoutARequestWaitsForAnIdleNode(t *testing.T) {
	s := newStage(t, toolkit, plugin)
	pod := s.workload("train")
	s.workload("web", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	s.change(func(nu *topsv1.NodeUpgrade) {
		nu.Spec.Operation = s.operation("op1", toolkit)
		quick(nu.Spec.Operation)
		nu.Spec.Operation.OnlyIdle, nu.Spec.Operation.Granted = true, false
	})
	op := s.until("it waits", func(op *topsv1.OperationStatus) bool { return op.Reason == operation.ReasonCardsInUse })
	if !op.InUse || op.PreparedTime == nil || !strings.HasSuffix(op.Message, ": "+s.namespace+"/train") {
		t.Errorf("in use: %t, prepared: %v, %s", op.InUse, op.PreparedTime, op.Message)
	}
	s.kill(pod)
	s.until("it awaits its slot", func(op *topsv1.OperationStatus) bool { return !op.InUse && op.Reason == operation.ReasonAwaitingSlot })
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.Granted = true })
	pod = s.workload("later")
	s.ends("Deferred CardsInUse", "", "devicePlugin v1, toolkit v1")
	if s.host.Runtime.Default != "runc" {
		t.Errorf("the runtime was restarted: %s", s.host.Runtime.Default)
	}
	s.kill(pod)
	s.offer("op2", toolkit)
	s.change(func(nu *topsv1.NodeUpgrade) { nu.Spec.Operation.OnlyIdle = true })
	s.until("the next one begins", func(op *topsv1.OperationStatus) bool { return op.ID == "op2" })
	s.ends("Done Succeeded", "", "devicePlugin v1, toolkit v1")
}
