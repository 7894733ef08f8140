package daemonupdater

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// rollback is what is to be done about a halt under failure.action Rollback of
// the policy (design section 3). The zero value is nothing.
type rollback struct {
	// to is the revision to go back to, nil for none.
	to *topsv1.KnownGoodRevision
	// hindered says why nothing is gone back to though the policy asks for it,
	// "" when it does not, or when to is set.
	hindered string
}

// asksRollback reports whether a group is halted and its policy asks for a rollback.
func asksRollback(o *observation, in rollout.Input, d rollout.Decision) bool {
	return d.Halted != "" && in.Blocked == nil && o.policy != nil &&
		o.policy.Spec.Failure != nil && o.policy.Spec.Failure.Action == topsv1.FailureRollback
}

// rollbackOf decides whether a halted group goes back to its last known good
// revision. kept reports whether what is needed for that still exists. A revision
// that fails while it is the last known good one stays halted, so there is no
// loop. It is pure, and gives the same answer until the target has changed.
func rollbackOf(o *observation, in rollout.Input, d rollout.Decision, kept bool) rollback {
	good := o.rollout.Status.LastKnownGood
	switch {
	case !asksRollback(o, in, d):
		return rollback{}
	case in.Settings.Paused:
		return rollback{hindered: "not rolled back while paused"}
	case good == nil:
		return rollback{hindered: "not rolled back: no earlier revision is known to be good"}
	case atGood(good, o, in):
		return rollback{hindered: "not rolled back: this is the last known good revision"}
	case !kept:
		return rollback{hindered: fmt.Sprintf("not rolled back: %s, the last known good revision, is not kept any more", nameOf(good))}
	}
	return rollback{to: good}
}

// atGood reports whether the group is at the last known good revision: its
// templates are, or its DaemonSets come from that spec already.
func atGood(good *topsv1.KnownGoodRevision, o *observation, in rollout.Input) bool {
	spec, agreed := specRevisionOf(o)
	return good.Revision == in.Revision || (agreed && spec != "" && spec == good.GcuResourceRevision)
}

// nameOf is the name by which people know a good revision: that of the spec, or
// the hash of the one DaemonSet.
func nameOf(good *topsv1.KnownGoodRevision) string {
	if good.GcuResourceRevision != "" {
		return good.GcuResourceRevision
	}
	if len(good.Targets) == 1 {
		return good.Targets[0].Hash
	}
	return good.Revision
}

// keptIn reports whether each DaemonSet still has the ControllerRevision of a
// good revision. Those of a gr are made from its spec and not looked for.
func keptIn(good *topsv1.KnownGoodRevision, members []member) bool {
	for _, m := range members {
		if revisionWith(m.daemonSet, m.revisions, targetIn(good, m.key())) == nil {
			return false
		}
	}
	return true
}

// targetIn returns the hash that a DaemonSet had at a good revision, "" when it
// was none of the group.
func targetIn(good *topsv1.KnownGoodRevision, key string) string {
	for _, t := range good.Targets {
		if t.DaemonSet == key {
			return t.Hash
		}
	}
	return ""
}

// revisionWith returns the ControllerRevision of a DaemonSet, by UID, with a
// hash, nil when there is none.
func revisionWith(ds *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision, hash string) *appsv1.ControllerRevision {
	for _, r := range revisions {
		if hash != "" && daemonset.RevisionHash(r) == hash && metav1.IsControlledBy(r, ds) {
			return r
		}
	}
	return nil
}

// specRevisionOf returns the revision of the gr's spec that all DaemonSets of
// the group were rendered from, "" for a DaemonSet of no gr. agreed is false
// while they come from different ones, or one does not say.
func specRevisionOf(o *observation) (revision string, agreed bool) {
	if o.group.Kind != kindGcuResource {
		return "", true
	}
	for i, m := range o.members {
		from := m.daemonSet.Annotations[topsv1.AnnotationRevision]
		if from == "" || (i > 0 && from != revision) {
			return "", false
		}
		revision = from
	}
	return revision, true
}

// explain adds to the message of a halt what becomes of it.
func (rb rollback) explain(halted string) string {
	switch {
	case rb.to != nil:
		return halted + "; rolling back to " + nameOf(rb.to)
	case rb.hindered != "":
		return halted + "; " + rb.hindered
	}
	return halted
}

// remember lays over a new status what it says of good revisions and of
// rollbacks. The rollback is the intent: it is stored before anything is changed
// back.
func (rb rollback) remember(status *topsv1.DaemonRolloutStatus, o *observation, in rollout.Input, d rollout.Decision) {
	before := &o.rollout.Status
	good := isGood(in, d)
	status.LastKnownGood = knownGood(before.LastKnownGood, o, in, good)
	status.Rollback = followed(before, o, in)
	if rb.to != nil && (status.Rollback == nil || status.Rollback.From != in.Revision || status.Rollback.To != rb.to.Revision) {
		status.Rollback = &topsv1.RolloutRollback{
			From: in.Revision, To: rb.to.Revision, GcuResourceRevision: rb.to.GcuResourceRevision,
			Message: "back to " + nameOf(rb.to) + ", the last known good revision: " + whyOf(d),
			Time:    wholeSecond(in.Now),
		}
	}
	if status.Rollback == nil || !arriving(status.Rollback, o, in) {
		return
	}
	if good && status.Rollback.CompletedTime == nil {
		status.Rollback.CompletedTime = &metav1.Time{Time: wholeSecond(in.Now).Time}
	}
	if c := meta.FindStatusCondition(status.Conditions, topsv1.RolloutProgressing); c != nil && c.Reason == reasonRollingOut {
		c.Reason = reasonRollingBack
	}
}

// whyOf says why a group is halted, with what the first of the failed nodes told of it.
func whyOf(d rollout.Decision) string {
	why, _, _ := strings.Cut(d.Halted, ": ") // without the advice
	for i := range d.Ledger.Failures {
		if f := &d.Ledger.Failures[i]; f.Message != "" {
			return why + "; " + f.Node + ": " + f.Message
		}
	}
	return why
}

// isGood reports whether the group is complete and at least one reachable node
// shows that the revision works. An empty fleet shows nothing, nor does one that
// is offline.
func isGood(in rollout.Input, d rollout.Decision) bool { return isComplete(in, d) && d.Proven() }

// knownGood returns the last known good revision: the present one when it is
// good, else the one before. One of a gr counts only when it is known which spec
// it comes from.
func knownGood(before *topsv1.KnownGoodRevision, o *observation, in rollout.Input, good bool) *topsv1.KnownGoodRevision {
	spec, agreed := specRevisionOf(o)
	if !good || !agreed {
		return before
	}
	now := &topsv1.KnownGoodRevision{Revision: in.Revision, GcuResourceRevision: spec, Since: wholeSecond(in.Now)}
	for _, m := range in.Members {
		now.Targets = append(now.Targets, topsv1.RevisionTarget{DaemonSet: m.Key, Hash: m.Target})
	}
	if before != nil {
		since := now.Since
		now.Since = before.Since
		if equality.Semantic.DeepEqual(before, now) {
			return before
		}
		now.Since = since
	}
	return now
}

// followed returns the stored rollback as long as it is what people see: until
// another revision than the one it went to becomes the target. That the bad one
// becomes the target again is a new rollout, which may be rolled back anew.
func followed(before *topsv1.DaemonRolloutStatus, o *observation, in rollout.Input) *topsv1.RolloutRollback {
	r := before.Rollback
	switch {
	case r == nil:
		return nil
	case in.Blocked != nil:
		return r.DeepCopy()
	case in.Revision == r.From && before.Revision != r.From:
		return nil
	case in.Revision == r.From || arriving(r, o, in) || changingBack(r, o):
		return r.DeepCopy()
	}
	return nil
}

// arriving reports whether the target of the group is what a rollback went to: the
// same templates, or what the restored spec is rendered to now.
func arriving(r *topsv1.RolloutRollback, o *observation, in rollout.Input) bool {
	spec, agreed := specRevisionOf(o)
	return in.Revision == r.To || (agreed && spec != "" && spec == r.GcuResourceRevision)
}

// changingBack reports whether some DaemonSets of a gr come from the restored spec
// and the others not yet.
func changingBack(r *topsv1.RolloutRollback, o *observation) bool {
	return r.GcuResourceRevision != "" && slices.ContainsFunc(o.members, func(m member) bool {
		return m.daemonSet.Annotations[topsv1.AnnotationRevision] == r.GcuResourceRevision
	})
}

// sameMemory reports whether two statuses agree on good revisions and rollbacks.
func sameMemory(a, b *topsv1.DaemonRolloutStatus) bool {
	return equality.Semantic.DeepEqual(a.LastKnownGood, b.LastKnownGood) && equality.Semantic.DeepEqual(a.Rollback, b.Rollback)
}
