package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Rollback is the response to a halt if failure.action of the policy is Rollback (design section 3).
// The zero value does nothing.
type Rollback struct {
	// To is the revision to return to, nil for none.
	To *topsv1.KnownGoodRevision
	// blockedBy says why there is no rollback although the policy asks for one; "" otherwise.
	blockedBy string
}

// WantsRollback reports whether a group is halted and its policy asks for a rollback.
func WantsRollback(s *observed.State, in rollout.Input, d rollout.Decision) bool {
	return d.Halted != "" && in.Blocked == nil && !in.Ending && s.Policy != nil &&
		s.Policy.Spec.Failure != nil && s.Policy.Spec.Failure.Action == topsv1.FailureRollback
}

// DeniedRollback is no rollback, because the API server denies it.
func DeniedRollback(err error) Rollback {
	return Rollback{blockedBy: "not rolled back: " + err.Error()}
}

// RollbackOf decides whether a halted group returns to its last known good revision. kept says
// whether everything needed for that still exists. If the last known good revision itself fails, the
// rollout stays halted, so there is no loop. The result stays the same until the target has changed.
func RollbackOf(s *observed.State, in rollout.Input, d rollout.Decision, kept bool) Rollback {
	good := s.Rollout.Status.LastKnownGood
	_, agreed := specRevisionOf(s)
	switch {
	case !WantsRollback(s, in, d):
		return Rollback{}
	case in.Settings.Paused:
		return Rollback{blockedBy: "not rolled back while the rollout is paused"}
	case good == nil:
		return Rollback{blockedBy: "not rolled back: no earlier revision is known to be good"}
	case atGood(good, s, in):
		return Rollback{blockedBy: "not rolled back: this is the last known good revision"}
	case good.Since.Before(s.Policy.Spec.Failure.RollbackNotBefore):
		return Rollback{blockedBy: fmt.Sprintf("not rolled back: %s, the last known good revision, is older than failure.rollbackNotBefore of the policy", nameOf(good))}
	case len(d.Ledger.Failures) < requiredFailures(s, d):
		return Rollback{blockedBy: fmt.Sprintf("not rolled back: that requires %d failed nodes (failure.minFailedNodes of the policy)", requiredFailures(s, d))}
	case failuresBeyond(good, d) < requiredFailures(s, d):
		return Rollback{blockedBy: fmt.Sprintf("not rolled back: nodes failed by versions that are part of %s, the last known good revision, as well", nameOf(good))}
	case !agreed:
		return Rollback{blockedBy: "not rolled back until all DaemonSets are rendered from the same spec"}
	case !kept:
		return Rollback{blockedBy: fmt.Sprintf("not rolled back: %s, the last known good revision, is no longer stored", nameOf(good))}
	}
	return Rollback{To: good}
}

// failuresBeyond counts the failures that may be due to a target that is not of a good revision: one that is blamed, or that the
// node has.
func failuresBeyond(good *topsv1.KnownGoodRevision, d rollout.Decision) (n int) {
	for i := range d.Ledger.Failures {
		f := &d.Ledger.Failures[i]
		if len(f.Targets) == 0 || slices.ContainsFunc(slices.Concat(f.Targets, d.TargetsOn(f.Node)), func(t rollout.Target) bool {
			return TargetIn(good.Targets, t.Member) != t.Revision
		}) {
			n++
		}
	}
	return n
}

// minFailedNodes is the default of failure.minFailedNodes: two nodes that report wrong failures are not enough.
const minFailedNodes = 3

// requiredFailures returns how many nodes must have failed for a rollback: as many as the policy requires, or
// all nodes of a smaller group. A lower threshold for a halt, or a small budget, does not lower it.
func requiredFailures(s *observed.State, d rollout.Decision) int {
	required := int(s.Policy.Spec.Failure.MinFailedNodes)
	if required == 0 {
		required = minFailedNodes
	}
	return min(required, d.Counts.Total)
}

// atGood reports whether the target of the group is the last known good revision: by its templates, or
// because its DaemonSets are already rendered from that spec.
func atGood(good *topsv1.KnownGoodRevision, s *observed.State, in rollout.Input) bool {
	spec, agreed := specRevisionOf(s)
	return good.Revision == in.Revision || (agreed && spec != "" && spec == good.GcuResourceRevision)
}

// nameOf returns the name of a good revision for users: the revision of the spec, or the hash of the only
// DaemonSet.
func nameOf(good *topsv1.KnownGoodRevision) string {
	if good.GcuResourceRevision != "" {
		return good.GcuResourceRevision
	}
	if len(good.Targets) == 1 {
		return good.Targets[0].Hash
	}
	return good.Revision
}

// StoredRevision reports whether each DaemonSet still has the ControllerRevision of a good revision. Do not
// call it for a gr, whose DaemonSets are rendered from its spec.
func StoredRevision(good *topsv1.KnownGoodRevision, members []observed.Member) bool {
	for _, m := range members {
		if RevisionWith(m.DaemonSet, m.Revisions, TargetIn(good.Targets, m.Key())) == nil {
			return false
		}
	}
	return true
}

// TargetIn returns the hash of a DaemonSet among targets, "" if it is not there.
func TargetIn(targets []topsv1.RevisionTarget, key string) string {
	for _, t := range targets {
		if t.DaemonSet == key {
			return t.Hash
		}
	}
	return ""
}

// RevisionWith returns the ControllerRevision with a hash that is controlled by a DaemonSet, by UID; nil
// if there is none.
func RevisionWith(ds *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision, hash string) *appsv1.ControllerRevision {
	for _, r := range revisions {
		if hash != "" && daemonset.RevisionHash(r) == hash && metav1.IsControlledBy(r, ds) {
			return r
		}
	}
	return nil
}

// specRevisionOf returns the revision of the gr's spec that all DaemonSets of the group were
// rendered from, "" for a DaemonSet without gr. agreed is false while they come from different
// revisions, or one is not annotated. Leaving DaemonSets do not count: they may be left over from an earlier
// spec.
func specRevisionOf(s *observed.State) (revision string, agreed bool) {
	if s.Group.Kind != observed.KindGcuResource {
		return "", true
	}
	for _, m := range s.Members {
		if daemonset.IsLeaving(m.DaemonSet) {
			continue
		}
		from := m.DaemonSet.Annotations[topsv1.AnnotationRevision]
		if from == "" || (revision != "" && from != revision) {
			return "", false
		}
		revision = from
	}
	return revision, revision != ""
}

// Explain adds to the message of a halt whether the group is rolled back, or why not.
func (rb Rollback) Explain(halted string) string {
	switch {
	case rb.To != nil:
		return halted + "; rolling back to " + nameOf(rb.To)
	case rb.blockedBy != "":
		return halted + "; " + rb.blockedBy
	}
	return halted
}

// Remember sets the last known good revision and the rollback in a new status. The rollback is
// the intent: it is stored before anything is rolled back.
func (rb Rollback) Remember(status *topsv1.DaemonRolloutStatus, s *observed.State, in rollout.Input, d rollout.Decision) {
	before := &s.Rollout.Status
	works := runs(in, d)
	status.LastKnownGood = knownGood(before.LastKnownGood, s, in, works && isGood(before.LastKnownGood, in, d))
	status.Rollback = keptRollback(before, s, in, d)
	if rb.To != nil && status.Rollback == nil {
		spec, _ := specRevisionOf(s)
		status.Rollback = &topsv1.RolloutRollback{
			From: in.Revision, To: rb.To.Revision, GcuResourceRevision: rb.To.GcuResourceRevision, RejectedRevision: spec,
			Message: "back to " + nameOf(rb.To) + ", the last known good revision: " + message.Short(whyOf(d), maxMessage),
			Time:    wholeSecond(in.Now),
		}
	}
	if status.Rollback == nil || !isAtRollbackTarget(status.Rollback, s, in) {
		return
	}
	if status.Rollback.RestoredTime == nil {
		status.Rollback.RestoredTime = &metav1.Time{Time: wholeSecond(in.Now).Time}
	}
	if works && status.Rollback.CompletedTime == nil {
		status.Rollback.CompletedTime = &metav1.Time{Time: wholeSecond(in.Now).Time}
	}
	if c := meta.FindStatusCondition(status.Conditions, topsv1.RolloutProgressing); c != nil && c.Reason == reasonRollingOut {
		c.Reason = reasonRollingBack
	}
}

// whyOf returns why a group is halted, with the message of the first failed node.
func whyOf(d rollout.Decision) string {
	why, _, _ := strings.Cut(d.Halted, ": ") // without what to do
	for i := range d.Ledger.Failures {
		if f := &d.Ledger.Failures[i]; f.Message != "" {
			return why + "; " + f.Node + ": " + f.Message
		}
	}
	return why
}

// runs reports whether the group is complete and at least one reachable node shows that the revision runs. An empty or offline
// fleet shows nothing.
func runs(in rollout.Input, d rollout.Decision) bool { return IsComplete(in, d) && d.Proven() }

// isGood reports whether a revision that runs is good: it is quiet. While nodes may still fail by it, it does not replace another
// one, to which they would be rolled back.
func isGood(before *topsv1.KnownGoodRevision, in rollout.Input, d rollout.Decision) bool {
	return d.IsSettled || d.IsQuiet && (before == nil || before.Revision == in.Revision)
}

// knownGood returns the last known good revision: the current one if it is good, otherwise the stored one.
// The current revision of a gr counts only if all its DaemonSets are rendered from the same spec.
func knownGood(before *topsv1.KnownGoodRevision, s *observed.State, in rollout.Input, good bool) *topsv1.KnownGoodRevision {
	spec, agreed := specRevisionOf(s)
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

// keptRollback returns the stored rollback while it stays in the status: until a person resumes the rollout, or
// there is another revision. For a gr, its DaemonSets show that: they are annotated when they are rendered
// from an earlier spec instead of the rejected one. A DaemonSet without gr has only its template.
func keptRollback(before *topsv1.DaemonRolloutStatus, s *observed.State, in rollout.Input, d rollout.Decision) *topsv1.RolloutRollback {
	r := before.Rollback
	switch {
	case r == nil || d.Ledger.Resumed != before.Resumed:
		return nil
	case in.Blocked != nil || observed.HasRejected(r, s.Members) || observed.ReplacesRejected(r, s.Members):
		return r.DeepCopy()
	case s.Group.Kind != observed.KindGcuResource && (in.Revision == r.From || in.Revision == r.To):
		return r.DeepCopy()
	}
	return nil
}

// isAtRollbackTarget reports whether the target of the group is the target of a rollback: the same templates, or
// the current rendering of the same spec.
func isAtRollbackTarget(r *topsv1.RolloutRollback, s *observed.State, in rollout.Input) bool {
	spec, agreed := specRevisionOf(s)
	return in.Revision == r.To || (agreed && spec != "" && spec == r.GcuResourceRevision)
}

// TemplatePatch returns a strategic merge patch that replaces the pod template by the one of a
// revision, whose data has the form {"spec":{"template":{…,"$patch":"replace"}}}. The API server
// rejects the patch if the DaemonSet has changed since it was read.
func TemplatePatch(live *appsv1.DaemonSet, revision *appsv1.ControllerRevision) ([]byte, error) {
	var data struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	if len(data.Spec.Template) == 0 {
		return nil, fmt.Errorf("ControllerRevision %s/%s holds no pod template", revision.Namespace, revision.Name)
	}
	data.Spec.Template["$patch"] = "replace"
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion},
		"spec":     map[string]any{"template": data.Spec.Template},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the template of ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return patch, nil
}
