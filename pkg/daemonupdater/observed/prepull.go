package observed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

const (
	// maxPrepulls is the limit of spec.prepulls.
	maxPrepulls = 8
	// maxImages is the limit of the images of one prepull.
	maxImages = 16
	// startDeadline is how long the node agent may take to begin a first pull. pullDeadline is how long a pull may take in
	// all, and how long a repeated one may take to begin: the agent itself gives up after 15 minutes.
	startDeadline = 2 * time.Minute
	pullDeadline  = 17 * time.Minute
	// failedPullKept is the minimum time a failed pull is remembered.
	failedPullKept = 24 * time.Hour
	// firstRepull is the time from a first failed pull to the next one; it doubles, up to lastRepull.
	firstRepull = time.Minute
	lastRepull  = 16 * time.Minute
	// slowPulls is the number of timed-out pulls after which the kubelet, which has no such limit, takes over.
	slowPulls = 3
	// assumedPresent is how long pulled images are assumed to be on the node: later the kubelet may have removed them.
	assumedPresent = 24 * time.Hour
)

// pulledMembers returns what is pulled for each member; for one that leaves, the images of its successor.
func pulledMembers(s *State) []pulledMember {
	if s.pulls.read {
		return s.pulls.members
	}
	s.pulls = prepulls{read: true, members: make([]pulledMember, len(s.Members))}
	settings, blocked := s.settingsInForce()
	if blocked != nil || settings.Strategy != daemonset.AdvancedRollingUpdate && settings.Strategy != daemonset.OTA {
		return s.pulls.members
	}
	s.pulls.left = settings.Strategy == daemonset.OTA || s.Policy != nil && s.Policy.Spec.Prepull == topsv1.PrepullNever
	for i := range s.Members {
		next := nextOf(s, i)
		if next == nil {
			continue
		}
		if target, err := next.Target(); err == nil {
			s.pulls.members[i] = pulledMember{next.DaemonSet, target, daemonset.Images(&next.DaemonSet.Spec.Template.Spec), map[string][]string{}}
		}
	}
	return s.pulls.members
}

// nextOf returns the member whose images a node needs when it loses the pod of a member: the member itself or, if it
// leaves, the one that takes over from it; nil for none.
func nextOf(s *State, member int) *Member {
	leaves := s.Members[member].DaemonSet
	if !daemonset.IsLeaving(leaves) {
		return &s.Members[member]
	}
	i := slices.IndexFunc(s.Members, func(m Member) bool {
		return !daemonset.IsLeaving(m.DaemonSet) && daemonset.AreRivals(m.DaemonSet, leaves)
	})
	if i < 0 {
		return nil
	}
	return &s.Members[i]
}

// pullOf returns the progress of pulling the images that the successor of a pod needs and the pod's revision does not
// name. If a webhook changed an image of the pod, it changes those of the successor too: then only the kubelet knows
// what to pull. The manager's cache has only the first container of a pod, which is enough to notice this.
func pullOf(s *State, member int, pod *corev1.Pod, node *corev1.Node, upgrade *topsv1.NodeUpgrade, now time.Time) rollout.Pull {
	m := &pulledMembers(s)[member]
	revision := daemonset.RevisionHash(pod)
	if m.target == "" || revision == m.target || daemonset.IsPlaceholder(pod) {
		return rollout.Pull{}
	}
	if m.next != s.Members[member].DaemonSet && !daemonset.ShouldRun(m.next, node).Create {
		return rollout.Pull{} // the node gets no pod in place of this one
	}
	before := imagesBefore(s, member, revision)
	changed := before != nil && len(pod.Spec.Containers) > 0 && !slices.Contains(before, pod.Spec.Containers[0].Image)
	switch {
	case !changed && !slices.ContainsFunc(m.images, func(image string) bool { return !slices.Contains(before, image) }), s.pulls.left && hasImages(pod):
		return rollout.Pull{}
	case s.pulls.left || changed || len(m.images) > maxImages || !slices.Contains(AgentOf(upgrade).Capabilities, upgradeplan.PrepullLight):
		return rollout.Pull{State: rollout.PullByKubelet}
	}
	_, pull := prepullOf(upgrade, node.Name, m.next.UID, m.target, now)
	return pull
}

// hasImages reports whether the images of a pod's newest revision were pulled on request under OTA.
func hasImages(pod *corev1.Pod) bool {
	c := daemonset.ImageReady(pod)
	return c != nil && c.Status == corev1.ConditionTrue
}

// prepullOf returns the prepull of a revision of a DaemonSet in a NodeUpgrade, with its progress; nil and PullNeeded if
// there is none.
func prepullOf(upgrade *topsv1.NodeUpgrade, node string, daemonSet types.UID, revision string, now time.Time) (*topsv1.Prepull, rollout.Pull) {
	i := slices.IndexFunc(upgrade.Spec.Prepulls, func(p topsv1.Prepull) bool { return p.DaemonSet.UID == daemonSet && p.Revision == revision })
	if i < 0 {
		return nil, rollout.Pull{State: rollout.PullNeeded}
	}
	asked := &upgrade.Spec.Prepulls[i]
	return asked, progressOf(asked, upgrade.Status.Host.Result(asked.ID, upgradeplan.PullTask(node).String()), now)
}

// progressOf returns the progress of a prepull by its result, nil for none. After a failure only success or a missing
// answer ends the wait: an agent that cannot try for a moment does not make a bad image good.
func progressOf(asked *topsv1.Prepull, result *topsv1.HostTaskResult, now time.Time) rollout.Pull {
	answered, again := result != nil && result.Attempt >= asked.Attempt, asked.Attempt > 1
	ended := answered && result.State.Final()
	failed := rollout.Pull{State: rollout.PullFailed, Attempts: asked.Attempt, Retry: asked.Time.Add(min(firstRepull<<min(max(asked.Attempt, 1)-1, 10), lastRepull))}
	if result != nil {
		failed.Message = result.Message
	}
	fromAhead := daemonset.IsAhead(asked.Time.Time, now)
	switch {
	case ended && result.State == topsv1.HostTaskDone && result.Reason != topsv1.ReasonLeftToKubelet:
		return rollout.Pull{State: rollout.PullReady, Until: asked.Time.Add(assumedPresent)}
	case fromAhead && !again && !ended:
		return rollout.Pull{State: rollout.PullNeeded}
	case !ended && again:
		failed.Until = asked.Time.Add(pullDeadline)
	case !ended:
		return rollout.Pull{State: rollout.PullRequested, Until: asked.Time.Add(deadlineOf(answered))}
	case isLeftToKubelet(asked, result):
		return rollout.Pull{State: rollout.PullByKubelet}
	}
	if fromAhead {
		failed.Retry, failed.Until = now, time.Time{}
	}
	return failed
}

// deadlineOf returns how long a first pull may take from its request.
func deadlineOf(begun bool) time.Duration {
	if begun {
		return pullDeadline
	}
	return startDeadline
}

// isLeftToKubelet reports whether, by the agent's result, the kubelet pulls the images instead.
func isLeftToKubelet(asked *topsv1.Prepull, result *topsv1.HostTaskResult) bool {
	switch result.Reason {
	case topsv1.ReasonLeftToKubelet:
		return true
	case topsv1.ReasonPullTimedOut:
		return asked.Attempt >= slowPulls
	case topsv1.ReasonPullFailed, topsv1.ReasonBadPullSecret:
		return false
	}
	return asked.Attempt == 1 // the agent could not try
}

// imagesBefore returns the images that an earlier revision of a member names, none if the revision no longer exists.
func imagesBefore(s *State, member int, revision string) []string {
	before := s.pulls.members[member].before
	images, known := before[revision]
	if !known {
		if template := s.Members[member].templateOf(revision); template != nil {
			images = daemonset.Images(&template.Spec)
		}
		before[revision] = images
	}
	return images
}

// NextPrepulls returns the prepulls of a NodeUpgrade with the due ones of some members added; changed reports whether
// there are any. Prepulls of other DaemonSets stay unless there are too many: the oldest finished ones are evicted
// first; failed ones are kept for a day. It returns an error if there is no room.
func NextPrepulls(s *State, upgrade *topsv1.NodeUpgrade, members []int, now time.Time) (next []topsv1.Prepull, changed bool, err error) {
	next = slices.Clone(upgrade.Spec.Prepulls)
	for _, member := range members {
		m := nextOf(s, member)
		if m == nil {
			continue
		}
		target, err := m.Target()
		if err != nil {
			continue
		}
		p := newPrepull(m, target, now)
		asked, pull := prepullOf(upgrade, upgrade.Name, m.DaemonSet.UID, target, now)
		if !pull.IsDue(now) {
			continue // the cache is stale
		}
		if asked != nil && pull.State != rollout.PullReady {
			p.ID, p.Attempt = asked.ID, asked.Attempt+1
		}
		next, changed = append(slices.DeleteFunc(next, func(o topsv1.Prepull) bool { return o.DaemonSet.UID == p.DaemonSet.UID }), p), true
	}
	for len(next) > maxPrepulls {
		oldest := slices.IndexFunc(next, func(p topsv1.Prepull) bool { return isEvictable(&p, upgrade, now) })
		if oldest < 0 {
			return nil, false, fmt.Errorf("the node already pulls images for %d DaemonSets, which is the limit", maxPrepulls)
		}
		next = slices.Delete(next, oldest, oldest+1)
	}
	return next, changed, nil
}

// isEvictable reports whether a prepull may make room for others: its deadline has passed and, if it failed, so has
// failedPullKept.
func isEvictable(p *topsv1.Prepull, upgrade *topsv1.NodeUpgrade, now time.Time) bool {
	since := now.Sub(p.Time.Time)
	r := upgrade.Status.Host.Result(p.ID, upgradeplan.PullTask(upgrade.Name).String())
	return since >= pullDeadline && (r == nil || r.State != topsv1.HostTaskFailed || since >= failedPullKept)
}

// newPrepull returns the prepull of the images of a member's newest revision.
func newPrepull(m *Member, target string, now time.Time) topsv1.Prepull {
	ds, spec := m.DaemonSet, &m.DaemonSet.Spec.Template.Spec
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", ds.UID, target, now.UnixNano()))
	return topsv1.Prepull{
		ID: "prepull-" + hex.EncodeToString(sum[:8]), Attempt: 1, Time: metav1.NewTime(now.UTC().Truncate(time.Second)),
		DaemonSet: topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID}, Revision: target,
		Images: daemonset.Images(spec), PullSecrets: daemonset.PullSecrets(spec),
	}
}

// PrepullResultsChanged reports whether the node agent's report about a prepull has changed.
func PrepullResultsChanged(before, after *topsv1.NodeUpgrade) bool {
	return slices.ContainsFunc(after.Spec.Prepulls, func(p topsv1.Prepull) bool {
		task := upgradeplan.PullTask(after.Name).String()
		was, is := before.Status.Host.Result(p.ID, task), after.Status.Host.Result(p.ID, task)
		return is != nil && (was == nil || was.State != is.State || was.Attempt != is.Attempt)
	})
}

// LeavePulls leaves the images of a node to the kubelet while the request to its agent is denied. If they are known to be
// missing, the request is repeated later instead. denied is the last denied write, nil for none.
func LeavePulls(n *rollout.Node, denied *rollout.Denial, now time.Time) {
	for i := range n.Pods {
		pull := &n.Pods[i].Pull
		switch {
		case denied == nil || !denied.Retry.After(now):
			return
		case pull.State == rollout.PullNeeded:
			*pull = rollout.Pull{State: rollout.PullByKubelet}
		case pull.State == rollout.PullFailed && denied.Retry.After(pull.Retry):
			pull.Retry = denied.Retry
		}
	}
}
