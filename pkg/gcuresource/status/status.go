// Package status turns decisions about a GcuResource (gr), and their progress, into its status
// and events.
//
//	status.go           the status of a gr; teardown.go: of one that is being deleted
//	phases.go           the phases of the components, and of the gr
//	actions.go          the conditions of deployment, upgrade and rollback
//	actioncondition.go  one condition of that format
//	conditions.go       Ready, Progressing and Degraded
//	gitops.go           Reconciling and Stalled, for tools that follow kstatus
//	upgrade.go          how many pods have the newest templates
//	rollout.go          what the status reports of the rollout
//	events.go           which changes of a status cause events
package status

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// Describe returns the status of a gr that is not being deleted. decided must be made from the
// same observation.
func Describe(obs *state.Observation, decided plan.Plan, now time.Time) topsv1.GcuResourceStatus {
	u := upgradeOf(obs, decided.Steps)
	status := *obs.Resource.Status.DeepCopy()
	status.ObservedGeneration = obs.Resource.Generation
	status.ClusterGCUNodes = obs.GCUNodes()
	status.ResourceStatuses = nil
	var words []string
	for i := range decided.Steps {
		word := phaseOf(&decided.Steps[i], &u)
		words = append(words, word)
		status.ResourceStatuses = append(status.ResourceStatuses, resourceStatus(obs.Resource, &obs.Components[i], &decided.Steps[i], word))
	}
	status.Phase = phaseOfAll(words)
	status.ReadyResource = readyResource(words)
	status.Conditions = actions(obs, &status, &u, now)
	status.Conditions = summarize(obs, decided, &status, &u, now)
	status.StandardConditions = standardConditions(obs, decided, &status, &u, now)
	return status
}

// DescribeFailure returns the status of a gr whose pass failed before it could describe it.
func DescribeFailure(gr *topsv1.GcuResource, cause error, now time.Time) topsv1.GcuResourceStatus {
	status := *gr.Status.DeepCopy()
	status.StandardConditions = setConditions(gr, now, degradedBy(ReconcileFailure(cause)))
	return status
}

// phaseOf returns the phase of one component (contract section 2.10). Pods that are not replaced
// automatically are not work in progress: with outdated but available pods under OTA the
// component stays Running.
func phaseOf(s *plan.Step, u *upgrade) string {
	h := &s.Health
	switch {
	case s.Failure != nil:
		return topsv1.PhaseFailed
	case !h.Exists || h.Terminating || !h.Seen:
		return topsv1.PhaseDeploying
	case (u.rolling || !h.PerNode) && (h.Outdated > 0 || !h.Observed):
		return u.phase()
	case h.Available == h.Expected && len(h.Absent) == 0:
		return topsv1.PhaseRunning
	case u.open:
		return u.phase()
	}
	return topsv1.PhaseDeploying
}

func resourceStatus(gr *topsv1.GcuResource, c *state.Component, s *plan.Step, word string) topsv1.ResourceStatus {
	return topsv1.ResourceStatus{
		Name:         c.Name,
		Namespace:    c.Namespace,
		OwnResources: ownResources(gr, c),
		Status:       word,
		Message:      stepMessage(c, s),
	}
}

// ownResources lists the existing objects of a component, in the order of the built-in manifest
// (contract statement 49), without Shared ones. Foreign objects are not listed: they fail the
// component.
func ownResources(gr *topsv1.GcuResource, c *state.Component) []topsv1.ResourceInfo {
	var list []topsv1.ResourceInfo
	for _, d := range c.Objects {
		live := c.Live[d.Ref]
		if live == nil || d.Ref.Shared() || !state.Ours(gr, d.Ref, live) {
			continue
		}
		list = append(list, topsv1.ResourceInfo{Group: d.Ref.Group, Version: d.Ref.Version, Kind: d.Ref.Kind, Name: d.Ref.Name})
	}
	return list
}

func stepMessage(c *state.Component, s *plan.Step) string {
	switch {
	case s.Failure != nil:
		return s.Failure.Message
	case s.Waits != "":
		return s.Waits
	case !s.Health.Exists:
		return "being created"
	}
	message := s.Health.Message(&c.Rendered)
	if s.Health.Outdated == 0 {
		return message
	}
	revision := fmt.Sprintf("%d of %d pods at the newest revision", s.Health.Updated, s.Health.Expected)
	if message == "" {
		return revision
	}
	return revision + "; " + message
}

// Same reports whether two statuses are equal. It compares the names of nodes separately: there
// are many, and reflection is slow.
func Same(a, b topsv1.GcuResourceStatus) bool {
	if !slices.Equal(a.ClusterGCUNodes, b.ClusterGCUNodes) {
		return false
	}
	a.ClusterGCUNodes, b.ClusterGCUNodes = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}
