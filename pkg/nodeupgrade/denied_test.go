package nodeupgrade

import (
	"strings"
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// TestADeniedDeletionDoesNotCountAgainstTheVersion: a webhook refuses to delete a pod. The operation
// waits, says so, and is deferred, or goes on when the pod may be deleted.
func TestADeniedDeletionDoesNotCountAgainstTheVersion(t *testing.T) {
	for _, tt := range []struct {
		name, component, waits, ends string
		forGood                      bool
	}{
		{"of the driver, for good", driver, operation.ReasonDeletionDenied, "Deferred DeletionDenied", true},
		{"of the toolkit, for good", toolkit, operation.ReasonDeletionDenied, "Deferred DeletionDenied", true},
		{"of a user of the device, for good", plugin, operation.ReasonDeviceInUse, "Deferred DeviceInUse", true},
		{"of the driver, for a while", driver, operation.ReasonDeletionDenied, "Done Succeeded", false},
		{"of a user of the device, for a while", plugin, operation.ReasonDeviceInUse, "Done Succeeded", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t, story{name: tt.name, components: []string{driver, toolkit, plugin}, tell: func(w *simulation) {
				w.publish(driver, "v2")
				w.publish(toolkit, "v2")
				w.refused = tt.component
				w.order("op1", func(op *topsv1.NodeOperation) { op.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 1} }, driver, toolkit)
				w.until("the denial", func(op *topsv1.OperationStatus) bool {
					return op.Reason == tt.waits && strings.Contains(op.Message, "denied by a webhook")
				})
				if !tt.forGood {
					for end := w.now.Add(time.Minute); w.now.Before(end); {
						w.step()
					}
					w.refused = ""
				}
			}}, nil)
			if s.run.Violation != "" || s.end.How != tt.ends || s.end.Marks != "" || s.refusals > 30 {
				t.Errorf("it ends %+v after %d refusals %s", s.end, s.refusals, s.run.Violation)
				for _, line := range s.run.History {
					t.Log(line)
				}
			}
		})
	}
}
