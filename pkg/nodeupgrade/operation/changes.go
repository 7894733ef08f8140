package operation

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// changes are a decision in the making: what it changes in the record (op and the
// history), what is to be done, and when to look again.
type changes struct {
	*snapshot
	history []topsv1.OperationRecord
	effects []Effect
	after   time.Duration
	// badOverride is what is wrong with the override, "" nothing: messages end with it.
	badOverride string
}

// task returns the record of a task, to be changed; one that a record from elsewhere
// lacks is added.
func (c *changes) task(t upgradeplan.Task) *topsv1.OperationTask {
	name := t.String()
	i := slices.IndexFunc(c.op.Tasks, func(r topsv1.OperationTask) bool { return r.Name == name })
	if i < 0 {
		c.op.Tasks = append(c.op.Tasks, topsv1.OperationTask{Name: name, State: topsv1.OperationTaskPending})
		i = len(c.op.Tasks) - 1
	}
	return &c.op.Tasks[i]
}

// at asks to be woken at a time.
func (c *changes) at(t time.Time) {
	in := max(t.Sub(c.f.Now), time.Second)
	if c.after == 0 || in < c.after {
		c.after = in
	}
}

// soon asks to be woken as soon as what was recorded is stored.
func (c *changes) soon() { c.at(c.f.Now) }

// onNode adds an effect on the Node object; a decision has one, because the
// second would find another resourceVersion, and none without one to name.
func (c *changes) onNode(e Effect) {
	if c.f.Node.Cordon.ResourceVersion == "" {
		return
	}
	if slices.ContainsFunc(c.effects, func(o Effect) bool { return o.NodeVersion != "" }) {
		return
	}
	if e.Operation == "" {
		e.Operation = c.op.ID
	}
	e.NodeUID, e.NodeVersion = c.f.Node.UID, c.f.Node.Cordon.ResourceVersion
	c.effects = append(c.effects, e)
}

// onPod adds an effect on a pod as it was named.
func (c *changes) onPod(kind EffectKind, named topsv1.NamedPod) {
	c.effects = append(c.effects, Effect{Kind: kind, Operation: c.op.ID, Pod: named})
}

// wait records why the operation waits, or how it ended, for people.
func (c *changes) wait(reason, text string) {
	if c.badOverride != "" {
		text = strings.TrimPrefix(text+"; "+c.badOverride, "; ")
	}
	c.op.Reason, c.op.Message = reason, text
}

// current records the current task, and why it waits.
func (c *changes) current(t upgradeplan.Task, reason, text string) {
	if c.op.Task != t.String() {
		c.op.Task, c.op.Since = t.String(), metav1.NewTime(c.f.Now)
	}
	c.wait(reason, text)
}

// phase records the phase, and since when.
func (c *changes) phase(phase topsv1.OperationPhase) {
	if c.op.Phase != phase {
		c.op.Phase, c.op.Since = phase, metav1.NewTime(c.f.Now)
	}
}
