package operation

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/cordon"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Decision is the next step.
type Decision struct {
	// Record to store first, at the resourceVersion that was read; equal to that of the facts
	// when nothing changes. If storing fails, no effect is carried out.
	Record Record
	// Effects to carry out then, in this order.
	Effects []Effect
	// After is the latest time until the next reconcile; zero: only when something changes.
	After time.Duration
}

// EffectKind is the kind of an effect.
type EffectKind string

// Kinds of effects. Each fails when its preconditions do not hold.
const (
	// Cordon and Uncordon apply Change at NodeVersion.
	Cordon   EffectKind = "Cordon"
	Uncordon EffectKind = "Uncordon"
	// TaintDevice sets the taint TaintDriverUpgrade to the operation at NodeVersion;
	// UntaintDevice removes it if it has that value.
	TaintDevice   EffectKind = "TaintDevice"
	UntaintDevice EffectKind = "UntaintDevice"
	// Evict makes one pass of a drain; with All, of all pods.
	Evict EffectKind = "Evict"
	// DeletePod deletes Pod by UID and resourceVersion.
	DeletePod EffectKind = "DeletePod"
	// FencePod writes to Pod at its resourceVersion, so that a deletion decided earlier
	// fails.
	FencePod EffectKind = "FencePod"
)

// Effect is one change to the cluster.
type Effect struct {
	Kind EffectKind
	// Operation it belongs to.
	Operation string
	// NodeUID and NodeVersion are the preconditions on the Node object.
	NodeUID     types.UID
	NodeVersion string
	// Change of the cordon.
	Change cordon.NodeChange
	// Pod and its preconditions.
	Pod topsv1.NamedPod
	// All: evict every pod, not only those that use the accelerator.
	All bool
}

// changes is a decision in the making: the facts, of which it changes the record, the effects to
// carry out, and when to requeue.
type changes struct {
	*Facts
	effects []Effect
	after   time.Duration
	// badOverride describes what is wrong with the override, "" when nothing is. wait appends
	// it to messages.
	badOverride string
}

// task returns the record of a task for changing, and adds one if the stored record lacks it.
func (c *changes) task(t upgradeplan.Task) *topsv1.OperationTask {
	name := t.String()
	i := slices.IndexFunc(c.Operation.Tasks, func(r topsv1.OperationTask) bool { return r.Name == name })
	if i < 0 {
		c.Operation.Tasks = append(c.Operation.Tasks, topsv1.OperationTask{Name: name, State: topsv1.OperationTaskPending})
		i = len(c.Operation.Tasks) - 1
	}
	return &c.Operation.Tasks[i]
}

// at requeues at t, unless an earlier time is already set.
func (c *changes) at(t time.Time) {
	c.after = retry.Sooner(c.after, max(t.Sub(c.Now), time.Second))
}

// soon requeues as soon as the record is stored.
func (c *changes) soon() { c.at(c.Now) }

// onNode adds an effect on the Node object. A decision has at most one, because a second
// would conflict on the resourceVersion; without a Node there is none. After a denial, one is tried from time to time.
func (c *changes) onNode(e Effect) {
	if c.Node.Cordon.ResourceVersion == "" || c.deniedLately(c.Node.UID) {
		return
	}
	if slices.ContainsFunc(c.effects, func(o Effect) bool { return o.NodeVersion != "" }) {
		return
	}
	if e.Operation == "" {
		e.Operation = c.Operation.ID
	}
	e.NodeUID, e.NodeVersion = c.Node.UID, c.Node.Cordon.ResourceVersion
	c.effects = append(c.effects, e)
}

// onPod adds an effect on a pod, with the UID and resourceVersion recorded for it.
// One that was denied is retried from time to time.
func (c *changes) onPod(kind EffectKind, named topsv1.NamedPod) {
	if c.Denied[named.UID].OfFence == (kind == FencePod) && c.deniedLately(named.UID) {
		return
	}
	c.effects = append(c.effects, Effect{Kind: kind, Operation: c.Operation.ID, Pod: named})
}

// deniedLately reports whether a write to an object was denied, and is not to be tried again yet.
func (c *changes) deniedLately(object types.UID) bool {
	denied, is := c.Denied[object]
	if !is || !c.Now.Before(denied.Retry) {
		return false
	}
	c.at(denied.Retry)
	return true
}

// wait records why the operation waits, or how it ended.
func (c *changes) wait(reason, text string) {
	if c.badOverride != "" {
		text = strings.TrimPrefix(text+"; "+c.badOverride, "; ")
	}
	c.Operation.Reason, c.Operation.Message = reason, text
}

// current records the current task, and why it waits.
func (c *changes) current(t upgradeplan.Task, reason, text string) {
	if c.Operation.Task != t.String() {
		c.Operation.Task, c.Operation.Since = t.String(), metav1.NewTime(c.Now)
	}
	c.wait(reason, text)
}

// phase records the phase, and since when.
func (c *changes) phase(phase topsv1.OperationPhase) {
	if c.Operation.Phase != phase {
		c.Operation.Phase, c.Operation.Since = phase, metav1.NewTime(c.Now)
	}
}

// maxUsers is how many users a record of a task has, MaxItems of its field: the API server refuses more.
const maxUsers = 64

// nameUser records a pod that uses the device, so that it may be deleted. If the record is full, it forgets the first pod that is
// gone. It returns false when the record is full of others, or when the observed pod is older than the recorded one (stale cache).
func (c *changes) nameUser(rec *topsv1.OperationTask, pod topsv1.NamedPod) bool {
	i := slices.IndexFunc(rec.Users, func(named topsv1.NamedPod) bool { return named.UID == pod.UID })
	switch {
	case i < 0:
		if len(rec.Users) >= maxUsers {
			gone := slices.IndexFunc(rec.Users, func(named topsv1.NamedPod) bool { return !c.exists(named) })
			if gone < 0 {
				return false
			}
			rec.Users = slices.Delete(slices.Clone(rec.Users), gone, gone+1)
		}
		rec.Users = append(slices.Clip(rec.Users), pod)
	case rec.Users[i] == pod:
	case !daemonset.Newer(pod.ResourceVersion, rec.Users[i].ResourceVersion):
		return false
	default:
		rec.Users = slices.Clone(rec.Users)
		rec.Users[i] = pod
	}
	return true
}
