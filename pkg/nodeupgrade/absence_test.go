package nodeupgrade

import (
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TestAnAbsenceCountsAgainstNoDeadline: no manager works on the node for a while, because the API
// server or the manager itself is away. A later pass sees that nothing has come of the task yet.
func TestAnAbsenceCountsAgainstNoDeadline(t *testing.T) {
	for _, task := range []string{"driver_replace", "driver_verify", "runtime_verify", "node_soak"} {
		for absence, again := range map[string]func(*simulation){"the API server": func(*simulation) {}, "the manager": (*simulation).boot} {
			for _, away := range []time.Duration{20 * time.Minute, 3 * time.Hour} {
				t.Run(task+" without "+absence+" for "+away.String(), func(t *testing.T) {
					s := tell(t, story{name: task, components: []string{driver, toolkit, plugin}, tell: func(w *simulation) {
						w.publish(driver, "v2")
						w.publish(toolkit, "v2")
						w.order("op1", func(op *topsv1.NodeOperation) { op.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 1} }, driver, toolkit)
						w.at(task, func() {
							w.now = w.now.Add(away)
							again(w)
						})
					}}, nil)
					if s.run.Violation != "" || s.end.How != "Done Succeeded" {
						t.Errorf("it ends %+v %s", s.end, s.run.Violation)
						for _, line := range s.run.History {
							t.Log(line)
						}
					}
				})
			}
		}
	}
}
