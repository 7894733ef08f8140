// Package inquiry predicts upgrades of a GcuResource (gr) in a cluster (pkg/preview), and
// validates their limits. It only reads.
package inquiry

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/ownership"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Predictor predicts upgrades. It only reads.
type Predictor struct {
	// Reader reads the cluster, with or without a cache.
	Reader client.Reader
	// Live reads without a cache what the operator does not cache: other pods, their
	// budgets, and where the operator runs.
	Live client.Reader
	// Namespace is the operator's.
	Namespace string
	// Clock returns the time.
	Clock func() time.Time
}

// Ask predicts an upgrade. It returns an error if something could not be read or planned. If the policy refuses
// the versions, Ask also predicts what is left to do without the change: nodes that wait anyway refuse nothing.
func (a Predictor) Ask(ctx context.Context, q preview.Question) (*preview.Preview, error) {
	prediction, err := a.predict(ctx, q)
	if err != nil || prediction.Refused() == "" {
		return prediction, err
	}
	q.Plan, q.Present, q.WithoutEvictions = nil, withoutPlan(q.Present), true // a plan says nothing about the versions
	q.Wanted = q.Present
	before, err := a.predict(ctx, q)
	if err != nil {
		return nil, err
	}
	prediction.Without(&before.Rollout)
	return prediction, nil
}

func (a Predictor) predict(ctx context.Context, q preview.Question) (*preview.Preview, error) {
	group := observed.Group{Kind: observed.KindGcuResource, Name: q.Wanted.Name}
	members, err := a.members(ctx, group, q.Present)
	if err != nil {
		return nil, err
	}
	kept, err := ownership.KeptSpecs(ctx, a.Reader, a.Namespace, q.Present)
	if err != nil {
		return nil, err
	}
	present, blocked, err := a.inForce(ctx, kept, &q)
	if err != nil {
		return nil, err
	}
	limit, _ := daemonset.LimitOf(q.Wanted.Annotations) // an invalid one is reported as Blocked
	prediction := &preview.Preview{GcuResource: q.Wanted.Name, Only: limit.String(), Components: []preview.Component{}, Rollout: *preview.Nothing(blocked)}
	if blocked != "" {
		return prediction, nil
	}
	differs, err := preview.Compare(present, q.Wanted, members, kept.Specs())
	if err != nil {
		return nil, err
	}
	annotations, err := foreseen(q.Wanted)
	if err != nil {
		return nil, err
	}
	s := &observed.State{Group: group, Members: differs.Foresee(members, annotations), New: differs.New, Plan: observed.Plan{Read: q.Plan}}
	operator, err := operatorPod(ctx, a.Live, a.Namespace)
	if err != nil {
		return nil, err
	}
	s.OperatorNode = operator.Spec.NodeName
	outlook, err := rolloutReader{a.ownership(), eviction.Self{UID: operator.UID}}.rollout(ctx, s, a.Clock(), &q)
	if err != nil {
		return nil, err
	}
	prediction.Components, prediction.Rollout = differs.Counted(outlook, limit), *outlook
	return prediction, nil
}

// foreseen returns the annotations that the DaemonSets of a gr get. With a plan they include the revision, because
// a plan is for one revision.
func foreseen(wanted *topsv1.GcuResource) (map[string]string, error) {
	annotations := component.UpgradeAnnotations(wanted)
	if annotations[topsv1.AnnotationUpgradePlan] == "" {
		return annotations, nil
	}
	var err error
	annotations[topsv1.AnnotationRevision], err = revision.Name(wanted)
	return annotations, err
}

// UnderVersions predicts an upgrade, without evictions, if its policy has spec.versions; otherwise it returns nil, and
// reads nothing but the policy.
func (a Predictor) UnderVersions(ctx context.Context, q preview.Question) (*preview.Preview, error) {
	if has, err := a.HasVersions(ctx, q.Wanted); err != nil || !has {
		return nil, err
	}
	return a.AskVersions(ctx, q)
}

// AskVersions predicts an upgrade, without evictions, to see whether its versions are allowed. A plan under which nothing
// happens, such as one for an earlier revision, is ignored: it says nothing about the versions, and later removing it is
// a change that nothing checks. A plan that the cache lacks is read from the API server. If the change itself names a plan that
// does not exist yet, the answer stays Blocked until it does.
func (a Predictor) AskVersions(ctx context.Context, q preview.Question) (*preview.Preview, error) {
	q.WithoutEvictions = true
	prediction, err := a.Ask(ctx, q)
	name := q.Wanted.Annotations[topsv1.AnnotationUpgradePlan]
	if err != nil || prediction.Blocked == "" || name == "" {
		return prediction, err
	}
	if q.Plan == nil {
		book := upgradeplan.DefaultBook()
		live, err := access.Plan(ctx, a.Live, name, &book)
		isNew := live.Read == nil && live.Invalid == nil && q.Present.Annotations[topsv1.AnnotationUpgradePlan] != name
		if err != nil || isNew {
			return prediction, err
		}
		if q.Plan = live.Read; q.Plan != nil {
			if prediction, err := a.Ask(ctx, q); err != nil || prediction.Blocked == "" {
				return prediction, err
			}
		}
	}
	q.Plan, q.Wanted = nil, withoutPlan(q.Wanted)
	return a.Ask(ctx, q)
}

func withoutPlan(gr *topsv1.GcuResource) *topsv1.GcuResource {
	gr = gr.DeepCopy()
	delete(gr.Annotations, topsv1.AnnotationUpgradePlan)
	return gr
}

// HasVersions reports whether the policy of a gr has spec.versions. It reads nothing but the policy.
func (a Predictor) HasVersions(ctx context.Context, wanted *topsv1.GcuResource) (bool, error) {
	name, err := daemonset.PolicyName(component.UpgradeAnnotations(wanted))
	if err != nil {
		return false, nil // the rollout is blocked by it
	}
	policy, err := access.Policy(ctx, a.Reader, name)
	return policy != nil && policy.Spec.Versions != nil, err
}

// inForce returns the current gr with the spec that is deployed, which is an earlier one while its own is rejected.
// blocked is why nothing would happen if the wanted spec is rejected, "" otherwise.
func (a Predictor) inForce(ctx context.Context, kept *revision.History, q *preview.Question) (present *topsv1.GcuResource, blocked string, err error) {
	var rollout topsv1.DaemonRollout
	key := client.ObjectKey{Namespace: a.Namespace, Name: q.Present.Name}
	if err := a.Reader.Get(ctx, key, &rollout); denial.IgnoreNotFound(err) != nil {
		return nil, "", fmt.Errorf("getting DaemonRollout %s: %w", key.Name, err)
	}
	if !rollout.BelongsTo(topsv1.GcuResourceKind, q.Present.Name) {
		return q.Present, "", nil
	}
	if present, _, err = kept.InForce(q.Present, &rollout); err != nil {
		return nil, "", err
	}
	wanted, err := revision.Name(q.Wanted)
	if err != nil {
		return nil, "", err
	}
	if good := rollout.Status.InPlaceOf(wanted); good != "" && daemonset.IsOf(&rollout, q.Present) {
		blocked = fmt.Sprintf("revision %s is rejected, %s is deployed in its place until the spec changes or the rollout is resumed", wanted, good)
	}
	return present, blocked, nil
}

func (a Predictor) ownership() ownership.Reader {
	return ownership.Reader{Reader: a.Reader, Live: a.Live, Namespace: a.Namespace}
}

// CheckLimit calls the function CheckLimit with the Predictor's Reader.
func (a Predictor) CheckLimit(ctx context.Context, gr *topsv1.GcuResource, limit *daemonset.Limit) (*daemonset.Limit, string, error) {
	return CheckLimit(ctx, a.Reader, gr, limit)
}

// members returns the DaemonSets of a gr, in the order of replacement.
func (a Predictor) members(ctx context.Context, g observed.Group, gr *topsv1.GcuResource) ([]observed.Member, error) {
	var sets appsv1.DaemonSetList
	if err := a.Reader.List(ctx, &sets, client.MatchingLabels{topsv1.LabelGcuResource: g.Name}); err != nil {
		return nil, fmt.Errorf("listing the DaemonSets of GcuResource %s: %w", g, err)
	}
	made, err := a.ownership().CreatedBy(ctx, gr, g.DaemonSets(sets.Items, gr.UID))
	if err != nil {
		return nil, err
	}
	var members []observed.Member
	for _, ds := range made {
		var list appsv1.ControllerRevisionList
		if err := ownership.ListSelected(ctx, a.Reader, &list, ds, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		members = append(members, observed.Member{DaemonSet: ds, Revisions: observed.ByName(list.Items)})
	}
	return members, nil
}
