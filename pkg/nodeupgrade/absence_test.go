package nodeupgrade

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// TestAnAbsenceCountsAgainstNoDeadline: no manager works on the node for a while, because the API
// server or the manager itself is away. A later pass sees that nothing has come of the task yet.
func TestAnAbsenceCountsAgainstNoDeadline(t *testing.T) {
	for _, task := range []string{"driver_replace", "driver_verify", "runtime_verify", "node_soak"} {
		for absence, leave := range map[string]func(*simulation, time.Duration){
			"the API server": func(w *simulation, away time.Duration) { w.now = w.now.Add(away) },
			"its answers":    (*simulation).unanswered,
			"the manager": func(w *simulation, away time.Duration) {
				w.now = w.now.Add(away)
				w.boot()
			},
		} {
			for _, away := range []time.Duration{20 * time.Minute, 3 * time.Hour} {
				t.Run(task+" without "+absence+" for "+away.String(), func(t *testing.T) {
					s := tell(t, story{name: task, components: []string{driver, toolkit, plugin}, tell: func(w *simulation) {
						w.publish(driver, "v2")
						w.publish(toolkit, "v2")
						w.order("op1", func(op *topsv1.NodeOperation) { op.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 1} }, driver, toolkit)
						w.at(task, func() { leave(w, away) })
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

// unanswered has passes that fail in their third read, after a minute, until a time is over.
func (w *simulation) unanswered(away time.Duration) {
	end, between := w.now.Add(away), w.process.line.between
	reads := 0
	w.process.line.between = func() {
		if reads++; reads == 3 {
			w.now = w.now.Add(time.Minute)
			w.process.line.dead = true
		}
	}
	for w.now.Before(end) {
		reads = 0
		if _, err := w.process.r.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: w.node}}); err == nil {
			w.t.Fatal("a pass without answers has no error")
		}
		w.process.line.dead = false
		w.now = w.now.Add(time.Second)
	}
	w.process.line.between, w.ready = between, true
}
