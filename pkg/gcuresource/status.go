package gcuresource

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Describe returns the status of a gr that stays. plan must be made from the
// same observation.
func Describe(obs *Observation, plan Plan, now time.Time) topsv1.GcuResourceStatus {
	u := upgradeOf(obs, plan.Steps)
	status := *obs.Resource.Status.DeepCopy()
	status.ObservedGeneration = obs.Resource.Generation
	status.ClusterGCUNodes = obs.gcuNodes()
	status.ResourceStatuses = nil
	var words []string
	for i := range plan.Steps {
		word := phaseOf(&plan.Steps[i], &u)
		words = append(words, word)
		status.ResourceStatuses = append(status.ResourceStatuses, resourceStatus(obs.Resource, &obs.Components[i], &plan.Steps[i], word))
	}
	status.Phase = phaseOfAll(words)
	status.ReadyResource = readyResource(words)
	status.Conditions = actions(obs, &status, &u, now)
	status.StandardConditions = standardConditions(obs, plan, &status, &u, now)
	return status
}

// phaseOf returns the word for one component (contract section 2.10). Pods
// that nobody replaces by himself are no work under way: outdated but
// available pods under OTA leave the component Running.
func phaseOf(s *Step, u *upgrade) string {
	h := &s.health
	switch {
	case s.Failure != nil:
		return topsv1.PhaseFailed
	case !h.exists || h.terminating || !h.seen:
		return topsv1.PhaseDeploying
	case (u.rolling || !h.perNode) && (h.outdated > 0 || !h.observed):
		return u.phase()
	case h.available == h.expected && len(h.absent) == 0:
		return topsv1.PhaseRunning
	case u.open:
		return u.phase()
	}
	return topsv1.PhaseDeploying
}

// phaseOfAll returns the phase of the gr: the first of these words any
// component has, else Running.
func phaseOfAll(words []string) string {
	for _, word := range []string{topsv1.PhaseFailed, topsv1.PhaseDeleting, topsv1.PhaseDeploying, topsv1.PhaseRollbacking, topsv1.PhaseUpgrading} {
		if slices.Contains(words, word) {
			return word
		}
	}
	return topsv1.PhaseRunning
}

// readyResource is "ready/total" (decision D4, section 2.10).
func readyResource(words []string) string {
	return fmt.Sprintf("%d/%d", occurrences(words, topsv1.PhaseRunning), len(words))
}

func occurrences(words []string, of ...string) int {
	n := 0
	for _, w := range words {
		if slices.Contains(of, w) {
			n++
		}
	}
	return n
}

func resourceStatus(gr *topsv1.GcuResource, c *Component, s *Step, word string) topsv1.ResourceStatus {
	return topsv1.ResourceStatus{
		Name:         c.Name,
		Namespace:    c.Namespace,
		OwnResources: ownResources(gr, c),
		Status:       word,
		Message:      stepMessage(c, s),
	}
}

// ownResources lists the objects of a component that exist, in the order of
// the built-in manifest (contract statement 49), without what is Shared. Objects
// of somebody else are not listed: a component with one has failed.
func ownResources(gr *topsv1.GcuResource, c *Component) []topsv1.ResourceInfo {
	var list []topsv1.ResourceInfo
	for _, d := range c.Objects {
		live := c.Live[d.Ref]
		if live == nil || d.Ref.Shared() || !ours(gr, d.Ref, live) {
			continue
		}
		list = append(list, topsv1.ResourceInfo{Group: d.Ref.Group, Version: d.Ref.Version, Kind: d.Ref.Kind, Name: d.Ref.Name})
	}
	return list
}

func stepMessage(c *Component, s *Step) string {
	switch {
	case s.Failure != nil:
		return s.Failure.Message
	case s.Waits != "":
		return s.Waits
	case !s.health.exists:
		return "being created"
	}
	message := s.health.message(c)
	if s.health.outdated == 0 {
		return message
	}
	revision := fmt.Sprintf("%d of %d pods at the newest revision", s.health.updated, s.health.expected)
	if message == "" {
		return revision
	}
	return revision + "; " + message
}

// deployMessage says how far the deployment is and what the first component
// that is not there waits for.
func deployMessage(status *topsv1.GcuResourceStatus) string {
	words := phaseWords(status)
	message := fmt.Sprintf("%d of %s run", occurrences(words, topsv1.PhaseRunning, topsv1.PhaseUpgrading, topsv1.PhaseRollbacking), message.Count(len(words), "component"))
	for _, rs := range status.ResourceStatuses {
		if rs.Status == topsv1.PhaseDeploying {
			return message + "; " + rs.Name + ": " + rs.Message
		}
	}
	return message
}

// failureMessage names every failed component with its cause.
func failureMessage(status *topsv1.GcuResourceStatus) string {
	var causes []string
	for _, rs := range status.ResourceStatuses {
		if rs.Status == topsv1.PhaseFailed {
			causes = append(causes, rs.Name+": "+rs.Message)
		}
	}
	return strings.Join(causes, "; ")
}

func phaseWords(status *topsv1.GcuResourceStatus) []string {
	words := make([]string, 0, len(status.ResourceStatuses))
	for _, rs := range status.ResourceStatuses {
		words = append(words, rs.Status)
	}
	return words
}

// DescribeTeardown returns the status of a gr that is being deleted.
func DescribeTeardown(obs *Observation, down Teardown, now time.Time) topsv1.GcuResourceStatus {
	status := *obs.Resource.Status.DeepCopy()
	status.ObservedGeneration = obs.Resource.Generation
	status.ClusterGCUNodes = obs.gcuNodes()
	status.Phase = topsv1.PhaseDeleting
	status.ResourceStatuses = nil
	running, nodes := 0, newRoster(obs.Nodes)
	for i := range obs.Components {
		c := &obs.Components[i]
		if !slices.Contains(down.Left, c.Name) {
			continue
		}
		rs := topsv1.ResourceStatus{Name: c.Name, Namespace: c.Namespace, OwnResources: ownResources(obs.Resource, c),
			Status: topsv1.PhaseDeleting, Message: "waiting until " + down.Current + " is gone"}
		if c.Name == down.Current {
			rs.Message = down.Message
		} else if h := obs.assess(c, nodes, now); h.running() {
			rs.Status, running = topsv1.PhaseRunning, running+1
		}
		status.ResourceStatuses = append(status.ResourceStatuses, rs)
	}
	total := max(len(obs.Components), len(down.Left))
	status.ReadyResource = fmt.Sprintf("%d/%d", running, total)
	progress := int32(100)
	if total > 0 {
		progress = int32((total - len(down.Left)) * 100 / total)
	}
	message := cmp.Or(down.Message, "every component is gone")
	status.Conditions = setAction(status.Conditions, topsv1.ActionCondition{
		Action: topsv1.ActionDelete, Status: topsv1.PhaseDeleting, Reason: ReasonDeleting, Message: message, Progress: progress,
	}, now)
	status.StandardConditions = teardownConditions(obs, message, now)
	return status
}
