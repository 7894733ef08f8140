package main

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// startedUpgrade is an upgrade that was written.
type startedUpgrade struct {
	name       string
	uid        types.UID
	generation int64
	// only and follows are the annotations with its limit and its plan, as written; "" for none.
	only, follows string
	// plan is the one that is followed, nil for none.
	plan *plannedUpgrade
}

// startedAs returns an upgrade as it was written, following a plan if that is not nil.
func startedAs(written *unstructured.Unstructured, p *plannedUpgrade) startedUpgrade {
	if written == nil {
		return startedUpgrade{}
	}
	annotations := written.GetAnnotations()
	return startedUpgrade{written.GetName(), written.GetUID(), written.GetGeneration(), annotations[topsv1.AnnotationUpgradeOnly], annotations[topsv1.AnnotationUpgradePlan], p}
}

// awaitUpgrade follows a gr until every reachable node within the limit, or the plan, has what was asked for.
func awaitUpgrade(ctx context.Context, out terminal, cl *cluster, asked startedUpgrade, timeout time.Duration) error {
	written := time.Now()
	return follow(ctx, out, cl, asked.name, timeout, func(ctx context.Context, gr *topsv1.GcuResource, s *display.Status) (bool, error) {
		return limitReached(ctx, out, cl, &asked, gr, &s.Outcome)
	}, func(ctx context.Context, gr *topsv1.GcuResource) (string, error) {
		if err := asked.overtaken(gr); err != nil {
			return "", err
		}
		if asked.plan == nil || time.Since(written) > lookAtLeast { // a rollout that cannot begin has no result of the plan
			return "", nil
		}
		return asked.plan.unseen(ctx)
	})
}

// overtaken returns an error if the gr is no longer as it was written.
func (a *startedUpgrade) overtaken(gr *topsv1.GcuResource) error {
	only, follows, to := gr.Annotations[topsv1.AnnotationUpgradeOnly], gr.Annotations[topsv1.AnnotationUpgradePlan], gr.Annotations[topsv1.AnnotationRolledBackTo]
	switch {
	case gr.UID != a.uid:
		return notYet("gr %s was deleted, and another client created it again", a.name)
	case gr.DeletionTimestamp != nil: // which changes the generation
		return notYet("gr %s is being deleted", a.name)
	case gr.Generation != a.generation && to != "":
		return notYet("gr %s was rolled back to %s; kubectl gcu status %s says why", a.name, to, a.name)
	case gr.Generation != a.generation:
		return notYet("the spec of gr %s was changed again by another client", a.name)
	case follows != a.follows && follows != "":
		return notYet("another client made gr %s follow UpgradePlan %s", a.name, follows)
	case follows != a.follows:
		return notYet("gr %s no longer follows UpgradePlan %s: another client ended it", a.name, a.follows)
	case only != a.only && only != "":
		return notYet("another client limited the upgrade of gr %s to %s", a.name, display.LimitText(only))
	case only != a.only:
		return notYet("another client removed the limit of the upgrade of gr %s", a.name)
	}
	return nil
}

// limitReached reports whether a limited upgrade is complete within its limit or plan, and returns an error if a node there
// remains. The status of the rollout may be of an earlier limit, and is about other nodes too, so this asks for the plan. What
// stops the rollout for another reason than its nodes is left to the status.
func limitReached(ctx context.Context, out terminal, cl *cluster, asked *startedUpgrade, gr *topsv1.GcuResource, o *display.Outcome) (bool, error) {
	limit, err := daemonset.LimitOf(gr.Annotations)
	if err != nil || limit == nil && asked.plan == nil || o.Reason == display.ReasonNotSeen || o.State == display.Stopped && o.Reason != topsv1.ReasonHalted {
		return false, nil //nolint:nilerr // an invalid limit is reported by the status
	}
	prediction, err := cl.predictor().Ask(ctx, preview.Question{Present: gr, Wanted: gr, Approved: true, WithoutEvictions: true})
	if err != nil || prediction.Blocked != "" {
		return false, err
	}
	within := func(node string) bool { return limit.HasNode(node) && asked.plan.hasNode(node) }
	if done, err := nodesReached(&prediction.Rollout, within, o); err != nil || !done {
		return false, err
	}
	if done, err := asked.plan.tasksDone(ctx); err != nil || !done {
		return false, err
	}
	out.say("the limited upgrade is complete; kubectl gcu upgrade %s --all continues with the rest", gr.Name)
	return true, nil
}

// nodesReached reports whether nothing is left to do on the nodes within a limit.
func nodesReached(left *preview.Rollout, within func(node string) bool, o *display.Outcome) (bool, error) {
	if slices.ContainsFunc(left.InFlight, within) || slices.ContainsFunc(left.Nodes, func(n preview.Node) bool { return within(n.Name) }) {
		return false, nil
	}
	for _, n := range left.Left {
		switch reason := rollout.Reason(n.Reason); {
		case !within(n.Name) || reason == rollout.ReasonLeftOut || reason == rollout.ReasonNodeOffline:
		case remains(reason, o):
			return false, notYet("node %s remains: %s; %s", n.Name, n.Reason, n.Message)
		default:
			return false, nil
		}
	}
	return true, nil
}

// remains reports whether waiting is futile for a node that is not upgraded for this reason. Where the rollout is stopped, its status
// says what to do.
func remains(reason rollout.Reason, o *display.Outcome) bool {
	switch {
	case o.State == display.Stopped || reason.State() == rollout.Pending:
		return false
	case reason == rollout.ReasonPinned || slices.Contains(rollout.FailureReasons, reason):
		return true
	}
	return o.Reason == string(rollout.ReasonLeftOut) // nothing else is under way
}
