package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/notification"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Bounds of the record: the number of entries, and the bytes of a subject, limit or name and of a message.
// Together they keep it below 40 KiB.
const (
	maxEntries      = 40
	maxSubject      = 128
	maxEntryMessage = 256
)

// recentChange is how long ago a user may have asked for what happens now. An older change may have been about
// something else: no name is better than a wrong one.
const recentChange = 10 * time.Minute

// Record adds to the record of a new status what happened since the stored one. Events with a state of
// their own in the status are found by comparing the two, approvals and holds by the last entries of the
// record. notifies says that there are notifications: the entries to send are marked as pending.
func Record(status *topsv1.DaemonRolloutStatus, s *observed.State, in rollout.Input, d rollout.Decision, notifies bool) {
	r := recorder{before: &s.Rollout.Status, after: status, changes: []askedby.Change{s.Asked, askedby.Of(s.Rollout.Annotations)}, now: in.Now, notifies: notifies}
	r.target(s)
	r.pause(in)
	r.approvals(in, d)
	r.waves()
	r.holds(in, d)
	r.failures()
	r.end(in)
}

// recorder adds entries to the record of a status.
type recorder struct {
	before, after *topsv1.DaemonRolloutStatus
	// changes are what users asked for, as their programs recorded it.
	changes []askedby.Change
	now     time.Time
	// notifies is false without notifications.
	notifies bool
}

// entry holds what differs between the entries of a pass.
type entry struct {
	event            topsv1.RolloutEvent
	subject, message string
	limit            string
	nodes            int32
	// verbs are those of the changes that may have caused it.
	verbs []string
}

// add appends an entry, and removes one if there are too many: the oldest about waves, holds or failed nodes,
// or the oldest of all if there is none. It never removes the new entry, because an event that is found by
// reading the record would then be added in every pass.
func (r *recorder) add(e entry) {
	written := topsv1.RolloutRecordEntry{Time: wholeSecond(r.now), Event: e.event, Revision: r.after.Revision, Nodes: e.nodes, Pending: r.notifies && notification.IsSent(e.event),
		Subject: message.Short(e.subject, maxSubject), Limit: message.Short(e.limit, maxSubject), Message: message.Short(e.message, maxEntryMessage)}
	if change := r.causeOf(e.verbs); change.User != "" {
		written.By, written.AskedTime = message.Short(change.User, maxSubject), timeOrNil(change.Time)
	}
	r.after.Record = append(r.after.Record, written)
	if over := len(r.after.Record) - maxEntries; over > 0 {
		oldest := max(0, slices.IndexFunc(r.after.Record[:maxEntries], func(e topsv1.RolloutRecordEntry) bool { return isDetail(e.Event) }))
		r.after.Record = slices.Delete(r.after.Record, oldest, oldest+over)
	}
}

func isDetail(e topsv1.RolloutEvent) bool {
	return slices.Contains([]topsv1.RolloutEvent{topsv1.RecordWaveComplete, topsv1.RecordHeld, topsv1.RecordReleased, topsv1.RecordNodesFailed}, e)
}

// causeOf returns the user's change that caused what happens now: a recent one with one of the verbs that no
// entry of the record names yet.
func (r *recorder) causeOf(verbs []string) askedby.Change {
	for _, change := range r.changes {
		used := slices.ContainsFunc(r.after.Record, func(e topsv1.RolloutRecordEntry) bool {
			return e.AskedTime != nil && e.AskedTime.Equal(&metav1.Time{Time: change.Time}) && e.By == message.Short(change.User, maxSubject)
		})
		if slices.Contains(verbs, change.Verb) && !used && r.now.Sub(change.Time).Abs() <= recentChange {
			return change
		}
	}
	return askedby.Change{}
}

// last returns the newest entry with one of the events, nil if there is none.
func (r *recorder) last(events ...topsv1.RolloutEvent) *topsv1.RolloutRecordEntry {
	for i := len(r.after.Record) - 1; i >= 0; i-- {
		if slices.Contains(events, r.after.Record[i].Event) {
			return &r.after.Record[i]
		}
	}
	return nil
}

// target records a new revision, a new limit or plan, and that the failures were cleared.
func (r *recorder) target(s *observed.State) {
	b, a := r.before, r.after
	asked := []string{askedby.Upgrade, askedby.Rollback}
	switch {
	case a.Revision == "":
	case a.Revision != b.Revision && a.Rollback != nil && a.Rollback.RestoredTime != nil && a.Rollback.CompletedTime == nil: // a rollback, which end records
	case a.Revision != b.Revision:
		spec, _ := specRevisionOf(s)
		r.add(entry{event: topsv1.RecordStarted, subject: spec, limit: limitIn(a), nodes: a.Total, verbs: asked})
	case a.LimitedTo != b.LimitedTo:
		r.add(entry{event: topsv1.RecordLimited, limit: limitIn(a), nodes: a.Total, verbs: asked})
	}
	if a.Resumed != b.Resumed && a.Resumed != "" {
		r.add(entry{event: topsv1.RecordResumed, nodes: b.FailedNodes, verbs: []string{askedby.Resume}})
	}
}

// limitIn returns the limit of an upgrade: for a plan, without its version.
func limitIn(s *topsv1.DaemonRolloutStatus) string {
	if plan, _, is := strings.Cut(s.LimitedTo, " "); is && strings.HasPrefix(plan, "plan=") {
		return plan
	}
	return s.LimitedTo
}

// pause records that the rollout was paused or resumed. While it is blocked, that is not known, and the stored
// condition is False; so the last entry counts too.
func (r *recorder) pause(in rollout.Input) {
	if in.Blocked != nil {
		return
	}
	last := r.last(topsv1.RecordPaused, topsv1.RecordUnpaused)
	was := meta.IsStatusConditionTrue(r.before.Conditions, topsv1.RolloutPaused) || last != nil && last.Event == topsv1.RecordPaused
	switch is := meta.IsStatusConditionTrue(r.after.Conditions, topsv1.RolloutPaused); {
	case is && !was:
		r.add(entry{event: topsv1.RecordPaused, verbs: []string{askedby.Pause}})
	case was && !is:
		r.add(entry{event: topsv1.RecordUnpaused, verbs: []string{askedby.Resume}})
	}
}

// approvals records that a wave or batch waits for an approval, and that it was approved.
func (r *recorder) approvals(in rollout.Input, d rollout.Decision) {
	last := r.last(topsv1.RecordAwaitingApproval, topsv1.RecordApproved)
	awaited := last != nil && last.Event == topsv1.RecordAwaitingApproval && last.Revision == r.after.Revision
	given := func() bool {
		for name, is := range in.Policy.Approved {
			if is && shortApproval(name) == last.Subject {
				return true
			}
		}
		return false
	}
	if awaited && given() {
		r.add(entry{event: topsv1.RecordApproved, subject: last.Subject, verbs: []string{askedby.Approve}})
	}
	reason, beforehand := rollout.ReasonAwaitingApproval, in.Beforehand != nil && in.Settings.Strategy != daemonset.OTA
	if beforehand { // the nodes wait for a task, and the approval may be given meanwhile
		reason = rollout.Reason(in.Beforehand.Reason)
	}
	i := slices.IndexFunc(d.Waiting, func(w rollout.Waiting) bool { return w.Reason == reason })
	awaits := shortApproval(d.Unapproved)
	recorded := awaited && last.Subject == awaits
	if i >= 0 && d.Unapproved != "" && !recorded {
		message := d.Waiting[i].Message
		if beforehand {
			message = d.NotReached
		}
		r.add(entry{event: topsv1.RecordAwaitingApproval, subject: awaits, message: message, nodes: int32(d.Waiting[i].Nodes)})
	}
}

// shortApproval returns the name of an approval as a subject. One that is too long is shortened in the middle, because its
// end has the batch and the version of the plan.
func shortApproval(name string) string {
	const cut, end = "…", maxSubject / 2
	if len(name) <= maxSubject {
		return name
	}
	return name[:maxSubject-end-len(cut)] + cut + name[len(name)-end:]
}

// waves records which waves were completed. Waves of another revision, limit or plan are different waves.
func (r *recorder) waves() {
	same := r.before.Revision == r.after.Revision && r.before.LimitedTo == r.after.LimitedTo
	for i := range r.after.Waves {
		w := &r.after.Waves[i]
		known := same && slices.ContainsFunc(r.before.Waves, func(b topsv1.WaveStatus) bool { return b.Name == w.Name && b.CompletedTime != nil })
		if w.CompletedTime != nil && w.Updated > 0 && !known {
			r.add(entry{event: topsv1.RecordWaveComplete, subject: w.Name, nodes: w.Updated})
		}
	}
}

// holds records how many nodes have a hold, when that changes. The message says who holds one of them.
func (r *recorder) holds(in rollout.Input, d rollout.Decision) {
	if in.Blocked != nil {
		return // the number is not known
	}
	var was int32
	if last := r.last(topsv1.RecordHeld, topsv1.RecordReleased); last != nil {
		was = last.Nodes
	}
	var held rollout.Waiting
	for _, w := range d.Waiting {
		if w.Reason == rollout.ReasonNodeHeld {
			held = w
		}
	}
	switch is := int32(held.Nodes); {
	case is > was:
		r.add(entry{event: topsv1.RecordHeld, message: held.Message, nodes: is})
	case is < was:
		r.add(entry{event: topsv1.RecordReleased, nodes: is})
	}
}

// failures records the nodes that failed, with the message of the first.
func (r *recorder) failures() {
	var failed []string
	var why string
	for i := range r.after.Failed {
		f := &r.after.Failed[i]
		if slices.ContainsFunc(r.before.Failed, func(b topsv1.NodeNote) bool { return b.Node == f.Node && b.Since.Equal(&f.Since) }) {
			continue
		}
		if failed = append(failed, f.Node); why == "" {
			why = f.Reason + ": " + f.Message
		}
	}
	if len(failed) > 0 {
		r.add(entry{event: topsv1.RecordNodesFailed, subject: message.Names(failed), message: why, nodes: int32(len(failed))})
	}
}

// end records a halt, a rollback, and the completion of the rollout.
func (r *recorder) end(in rollout.Input) {
	b, a := r.before, r.after
	if c := meta.FindStatusCondition(a.Conditions, topsv1.RolloutHalted); in.Blocked == nil && c != nil && c.Status == metav1.ConditionTrue && !r.wasHalted() {
		r.add(entry{event: topsv1.RecordHalted, message: c.Message, nodes: a.FailedNodes})
	}
	if a.Rollback != nil && (b.Rollback == nil || !b.Rollback.Time.Equal(&a.Rollback.Time)) {
		r.add(entry{event: topsv1.RecordRollingBack, subject: rollbackTo(a.Rollback), message: a.Rollback.Message, nodes: a.FailedNodes})
	}
	switch {
	case isRolledBack(a.Rollback) && !isRolledBack(b.Rollback):
		r.add(entry{event: topsv1.RecordRolledBack, subject: rollbackTo(a.Rollback), nodes: a.Updated})
	case isDone(a) && (!isDone(b) || a.Revision != b.Revision) && !r.ended():
		r.add(entry{event: topsv1.RecordComplete, message: skippedMessage(a), nodes: a.Updated})
	}
}

// wasHalted reports whether the halt is recorded already. While a halted rollout is blocked, the stored condition is False;
// then the record has the halt, and no failure since.
func (r *recorder) wasHalted() bool {
	last := r.last(topsv1.RecordHalted, topsv1.RecordNodesFailed, topsv1.RecordResumed, topsv1.RecordStarted)
	return meta.IsStatusConditionTrue(r.before.Conditions, topsv1.RolloutHalted) || last != nil && last.Event == topsv1.RecordHalted && last.Revision == r.after.Revision
}

// ended reports whether the record has the end of the rollout already: replacing a pod later starts no new one.
func (r *recorder) ended() bool {
	last := r.last(topsv1.RecordStarted, topsv1.RecordLimited, topsv1.RecordResumed, topsv1.RecordRollingBack, topsv1.RecordRolledBack, topsv1.RecordComplete)
	return last != nil && last.Revision == r.after.Revision && (last.Event == topsv1.RecordComplete || last.Event == topsv1.RecordRolledBack)
}

func isRolledBack(rb *topsv1.RolloutRollback) bool { return rb != nil && rb.CompletedTime != nil }

func isDone(s *topsv1.DaemonRolloutStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, topsv1.RolloutComplete)
}

// rollbackTo returns the revision that a rollback returns to, by the name that users know.
func rollbackTo(rb *topsv1.RolloutRollback) string {
	if rb.GcuResourceRevision != "" {
		return rb.GcuResourceRevision
	}
	return rb.To
}

func skippedMessage(s *topsv1.DaemonRolloutStatus) string {
	if s.SkippedNodes == 0 {
		return ""
	}
	return fmt.Sprintf("%s offline; will be upgraded once Ready", message.Count(int(s.SkippedNodes), "node"))
}
