package daemonupdater

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// Reasons for touching nothing that pass by themselves: the DaemonSet controller
// has not observed a template yet, or the annotations of a gr are on some of its
// DaemonSets only.
const (
	reasonRevisionPending  = "RevisionPending"
	reasonSettingsDisagree = "SettingsDisagree"
)

// transient reports whether a reason for touching nothing passes by itself.
func transient(b *rollout.Blocked) bool {
	return b.Reason == reasonRevisionPending || b.Reason == reasonSettingsDisagree
}

// observation is what one pass read.
type observation struct {
	group Group
	// members in the order of replacement.
	members []member
	// view of the nodes; nil until it is made.
	view *view
	// policy the settings name, nil when there is none.
	policy *topsv1.UpgradePolicy
	// rollout as last written; its resourceVersion is empty when it does not exist yet.
	rollout *topsv1.DaemonRollout
	// home is the node that the operator runs on, "" when it is not known.
	home string
	// limit is what the upgrade is limited to, read once: it may name thousands of nodes.
	limit struct {
		read bool
		cut  *daemonset.Cut
	}
	// unseen: the cache does not show the rollout, which this process made. Somebody
	// may have deleted it since, and of that there would be no event.
	unseen bool
}

// foreign reports whether the group is none of ours and never was: it has no
// strategy, and no rollout that would have to be undone. Then nothing more of it
// is read.
func (o *observation) foreign() bool {
	settings, blocked := settingsOf(o)
	return blocked == nil && settings.Strategy == daemonset.NoStrategy && o.rollout.ResourceVersion == ""
}

// member is one DaemonSet of the group with what belongs to it.
type member struct {
	daemonSet *appsv1.DaemonSet
	revisions []*appsv1.ControllerRevision
	// foreseen is, in a preview, the revision of a template that the DaemonSet is to
	// have; "" otherwise.
	foreseen string
}

// target is the hash of the newest revision; the error says what is waited for.
func (m member) target() (string, error) {
	if m.foreseen != "" {
		return m.foreseen, nil
	}
	return daemonset.TargetRevision(m.daemonSet, m.revisions)
}

func (m member) key() string { return m.daemonSet.Namespace + "/" + m.daemonSet.Name }

// zoneLabel spreads starts over failure domains.
const zoneLabel = corev1.LabelTopologyZone

// inputOf turns an observation into the input of the plan, all but the nodes. It
// is pure.
func inputOf(o *observation, book *upgradeplan.Book, deadlines rollout.Deadlines, now time.Time) rollout.Input {
	in := rollout.Input{Now: now, Deadlines: deadlines, Ledger: ledgerOf(&o.rollout.Status)}
	in.Settings, in.Blocked = settingsOf(o)
	cut := o.cut()
	if missing := o.withoutMember(cut); missing != "" && in.Blocked == nil {
		in.Blocked = &rollout.Blocked{Reason: daemonset.ReasonInvalidUpgradeOnly, Message: fmt.Sprintf(
			"annotation %s names component %s, of which there is no DaemonSet here", topsv1.AnnotationUpgradeOnly, missing)}
	}
	var hashes []string
	for _, m := range o.members {
		target, err := m.target()
		if err != nil && in.Blocked == nil && in.Settings.Strategy != daemonset.NoStrategy {
			in.Blocked = &rollout.Blocked{Reason: reasonRevisionPending, Message: err.Error()}
		}
		in.Members = append(in.Members, rollout.Member{Key: m.key(), Target: target, Heavy: heavy(book, m.component()),
			LeftOut: !cut.HasComponent(m.component())})
		hashes = append(hashes, m.key()+"="+target)
	}
	in.Revision = revisionOf(hashes)
	in.Resume = o.rollout.Annotations[topsv1.AnnotationResume]
	applyPolicy(&in, o)
	return in
}

// cut is what the upgrade is limited to, nil for everything. Settings that are not
// understood block the group before it is looked at.
func (o *observation) cut() *daemonset.Cut {
	if !o.limit.read {
		o.limit.read = true
		o.limit.cut, _ = daemonset.CutOf(o.members[0].daemonSet.Annotations)
	}
	return o.limit.cut
}

// withoutMember returns a component of a cut that no member has, "" when there is none.
func (o *observation) withoutMember(cut *daemonset.Cut) string {
	if cut == nil {
		return ""
	}
	i := slices.IndexFunc(cut.Components, func(key string) bool {
		return !slices.ContainsFunc(o.members, func(m member) bool { return m.component() == key })
	})
	if i < 0 {
		return ""
	}
	return cut.Components[i]
}

// settingsOf returns the settings all members agree on.
func settingsOf(o *observation) (daemonset.Settings, *rollout.Blocked) {
	var agreed daemonset.Settings
	for i, m := range o.members {
		s, err := daemonset.SettingsOf(m.daemonSet)
		if err != nil {
			return daemonset.Settings{}, blockedBy(err)
		}
		if i > 0 && s != agreed {
			return daemonset.Settings{}, &rollout.Blocked{Reason: reasonSettingsDisagree, Message: fmt.Sprintf(
				"DaemonSets %s and %s have different upgrade annotations; waiting until those of the GcuResource are on both",
				o.members[0].key(), m.key())}
		}
		agreed = s
	}
	return agreed, nil
}

func blockedBy(err error) *rollout.Blocked {
	if wrong, ok := errors.AsType[*daemonset.SettingsError](err); ok {
		return &rollout.Blocked{Reason: wrong.Reason, Message: wrong.Message}
	}
	return &rollout.Blocked{Reason: "InvalidSettings", Message: err.Error()}
}

// revisionOf names the targets of all members together, in few characters.
func revisionOf(hashes []string) string {
	slices.Sort(hashes)
	sum := sha256.Sum256([]byte(strings.Join(hashes, "\n")))
	return hex.EncodeToString(sum[:5])
}

// nodeOf returns a node that was found, with the pods that are or should be on it.
func nodeOf(o *observation, found *found, revision string, known zones, now time.Time) rollout.Node {
	node, pods := found.node, found.pods
	requests := openRequests(found.upgrade)
	n := rollout.Node{Name: node.Name, UID: node.UID, Zone: node.Labels[zoneLabel], Home: o.home != "" && node.Name == o.home,
		LeftOut: !o.cut().HasNode(node.Name)}
	if o.policy != nil {
		describeNode(&n, node, &o.policy.Spec, known)
	}
	ready, since := daemonset.NodeReady(node)
	n.Ready, n.ReadySince = ready, since.Time
	describeOperations(&n, found.upgrade, rolloutOf(o), revision)
	for i, m := range o.members {
		placement := daemonset.ShouldRun(m.daemonSet, node)
		var pod *corev1.Pod
		if len(pods) > 0 {
			pod = daemonset.PodOf(pods[i])
		}
		if (pod == nil && !placement.Create) || (pod != nil && !placement.Keep) {
			continue
		}
		p := podOf(i, pod, m.daemonSet.Spec.MinReadySeconds, now)
		p.Request = requests[m.daemonSet.UID]
		n.Pods = append(n.Pods, p)
	}
	return n
}

func podOf(index int, pod *corev1.Pod, minReadySeconds int32, now time.Time) rollout.Pod {
	p := rollout.Pod{Member: index}
	if pod == nil {
		return p
	}
	p.Name, p.UID, p.Version, p.Created = pod.Name, pod.UID, pod.ResourceVersion, pod.CreationTimestamp.Time
	p.Revision = daemonset.RevisionHash(pod)
	p.Terminating = pod.DeletionTimestamp != nil
	available, wait := daemonset.Availability(pod, minReadySeconds, now)
	p.Available = available
	if wait > 0 {
		p.AvailableAt = now.Add(wait)
	}
	p.CrashLooping, _ = daemonset.CrashLooping(pod)
	return p
}

// openRequests returns the latest request per DaemonSet that is neither answered
// finally nor taken back.
func openRequests(upgrade *topsv1.NodeUpgrade) map[types.UID]*rollout.Request {
	if upgrade == nil {
		return nil
	}
	open, final := map[types.UID]*rollout.Request{}, finalTasks(upgrade)
	for _, r := range upgrade.Status.Requests {
		if !final[r.ID] && !r.Withdrawn {
			open[r.DaemonSet.UID] = &rollout.Request{PodUID: r.Pod.UID, Time: r.RequestTime.Time}
		}
	}
	return open
}

// unanswered reports whether a request has no final answer, or an answer no request.
func unanswered(upgrade *topsv1.NodeUpgrade) bool {
	final := finalTasks(upgrade)
	for _, r := range upgrade.Status.Requests {
		if !final[r.ID] {
			return true
		}
		delete(final, r.ID)
	}
	return len(final) > 0
}

// finalTasks tells for the id of every task whether its state is final.
func finalTasks(upgrade *topsv1.NodeUpgrade) map[string]bool {
	final := make(map[string]bool, len(upgrade.Status.Tasks))
	for _, task := range upgrade.Status.Tasks {
		final[task.RequestID] = task.State.Final()
	}
	return final
}
