package observed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// State is what one pass read of a group.
type State struct {
	Group Group
	// Members in the order of replacement.
	Members []Member
	// Nodes and Upgrades are the Nodes and NodeUpgrades of the nodes that were read (SetNode), by name; either may be missing.
	Nodes    map[string]*corev1.Node
	Upgrades map[string]*topsv1.NodeUpgrade
	// New are, in a preview, the members that do not exist yet.
	New []Member
	// Policy that the settings name, nil if there is none.
	Policy *topsv1.UpgradePolicy
	// Plan that the settings name.
	Plan Plan
	// Rollout as last written; its resourceVersion is empty if it does not exist yet.
	Rollout *topsv1.DaemonRollout
	// TakenBy is the DaemonRollout of another group under the key of this one's, nil if there is none.
	TakenBy *topsv1.DaemonRollout
	// Asked is the last requested change of the GcuResource, or of the DaemonSet of a group without one, and by whom.
	Asked askedby.Change
	// Ending: the GcuResource of the group is being deleted, or gone.
	Ending bool
	// NeedsRestart: the container runtime of some node has to be restarted. It is known only if the
	// group MayRestart.
	NeedsRestart bool
	// OperatorNode is the node that the operator runs on, "" if unknown.
	OperatorNode string
	// StateTimes of nodes and pods; nil if there is only one clock.
	StateTimes *daemonset.StateTimes
	// pulls are the images to pull before nodes start, read once.
	pulls prepulls
	// limit is the scope that the upgrade is limited to, parsed once: it may name thousands of nodes.
	limit struct {
		read bool
		of   *daemonset.Limit
	}
}

// Unmanaged reports whether the group is not managed and has nothing to clean up: it has no strategy, no DaemonRollout
// and no runtime to restart. Then nothing more of it is read.
func (s *State) Unmanaged() bool {
	return s.isUntouched() && !s.restartsOnly()
}

// MayRestart reports whether a group without a strategy, and without a DaemonRollout, has runtimes
// to restart if a node needs it.
func (s *State) MayRestart() bool {
	return s.isUntouched() && s.hasToolkit()
}

func (s *State) isUntouched() bool {
	settings, blocked := s.Settings()
	return blocked == nil && settings.Strategy == daemonset.NoStrategy && s.Rollout.ResourceVersion == ""
}

func (s *State) hasToolkit() bool {
	return slices.ContainsFunc(s.Members, func(m Member) bool { return Restarts(m.DaemonSet) })
}

// restartsOnly reports whether a group without a strategy restarts runtimes: a node needs a restart, or restarts have
// begun. If a strategy was removed, the DaemonRollout of its upgrade is deleted first.
func (s *State) restartsOnly() bool {
	if s.Rollout.ResourceVersion == "" {
		return s.NeedsRestart && s.MayRestart()
	}
	return s.Rollout.Status.Strategy == string(rollout.RestartsOnly) && s.hasToolkit()
}

// restartSettings returns the settings of a group that restartsOnly: only a pause and a policy count.
func (s *State) restartSettings() (daemonset.Settings, *rollout.Blocked) {
	settings := daemonset.Settings{Strategy: rollout.RestartsOnly}
	for _, m := range s.Members {
		paused, err := daemonset.Paused(m.DaemonSet.Annotations)
		if err != nil {
			return settings, blockedBy(err)
		}
		settings.Paused = settings.Paused || paused
		if settings.Policy, err = daemonset.PolicyName(m.DaemonSet.Annotations); err != nil {
			return settings, blockedBy(err)
		}
	}
	return settings, nil
}

// EndsWith reports whether the DaemonSets of the group are about to be deleted, given the GcuResource of its name: the
// GcuResource is being deleted, or is not the owner of a DaemonSet.
func (s *State) EndsWith(gr *topsv1.GcuResource) bool {
	return gr.DeletionTimestamp != nil || slices.ContainsFunc(s.Members, func(m Member) bool { return daemonset.GcuResourceOwner(m.DaemonSet).UID != gr.UID })
}

// OperationKey returns how operations name the group, "" if it has none.
func (s *State) OperationKey() string { return s.Group.OperationKey(s.Rollout.Namespace) }

// PolicyName returns the UpgradePolicy that the settings name, "" for none.
func (s *State) PolicyName() string {
	settings, _ := s.settingsInForce()
	return settings.Policy
}

// PlanName returns the UpgradePlan that the settings of a group name, "" for none.
func PlanName(s *State) string {
	settings, _ := s.settingsInForce()
	return settings.Plan
}

// settingsInForce returns the annotated settings, or those of a group that restartsOnly.
func (s *State) settingsInForce() (daemonset.Settings, *rollout.Blocked) {
	settings, blocked := s.Settings()
	if blocked == nil && settings.Strategy == daemonset.NoStrategy && s.restartsOnly() {
		return s.restartSettings()
	}
	return settings, blocked
}

// Input returns the input of the plan without the nodes.
func (s *State) Input(book *upgradeplan.LogicBook, deadlines rollout.Deadlines, now time.Time) rollout.Input {
	in := rollout.Input{Now: now, Deadlines: deadlines, Ending: s.Ending, Ledger: Ledger(&s.Rollout.Status, now)}
	in.Settings, in.Blocked = s.settingsInForce()
	if in.Blocked == nil && in.Settings.Strategy != daemonset.NoStrategy {
		in.Blocked = cmp.Or(s.NameTaken(), ofFormerOwner(s.Rollout, s.Members[0].DaemonSet))
	}
	limit := s.onlyFor()
	if missing := s.withoutMember(limit); missing != "" && in.Blocked == nil {
		in.Blocked = &rollout.Blocked{Reason: daemonset.ReasonInvalidUpgradeOnly, Message: fmt.Sprintf(
			"annotation %s names component %s, of which there is no DaemonSet here", topsv1.AnnotationUpgradeOnly, missing)}
	}
	var hashes []string
	if in.Settings.Strategy == rollout.RestartsOnly {
		hashes = append(hashes, string(rollout.RestartsOnly)) // its waves do not count for an upgrade to the same targets
	}
	needs := needsOf(book, s.Members)
	for _, m := range s.Members {
		target, err := m.Target()
		if err != nil && in.Blocked == nil && in.Settings.Strategy != daemonset.NoStrategy {
			in.Blocked = &rollout.Blocked{Reason: reasonRevisionPending, Message: err.Error()}
		}
		in.Members = append(in.Members, rollout.Member{Key: m.Key(), Target: target, Heavy: heavy(book, m.Component()),
			Needs: needs[m.Component()], ReplacedWithOthers: isReplacedWithOthers(book, m.Component()), Restarts: Restarts(m.DaemonSet), LeftOut: !limit.HasComponent(m.Component()),
			Component: m.Component(), Image: m.version(), Earlier: m.earlierVersions(s.Policy)})
		hashes = append(hashes, m.Key()+"="+target)
	}
	in.Revision = revisionOf(hashes)
	in.Resume = s.Rollout.LastResume()
	if in.Blocked == nil {
		in.Blocked = rejected(s.Rollout, s.Group.Kind, in.Revision, s.Members)
	}
	applyPolicy(&in, s.Policy, s.Rollout.Approvals())
	if s.purpose(&in) == topsv1.PurposeRollback { // a rollback is always allowed, and reaches every node that the failed revision reached
		in.Policy.Versions = nil
		s.Plan.rollBack(s.Rollout.Status.Rollback, s.Group)
	} else {
		s.Plan.apply(&in, s.Group, s.Members, s.Rollout.Approvals())
	}
	return in
}

// purpose returns Rollback while the group returns to its last known good revision. For a gr, every DaemonSet must be
// deployed in place of the rejected spec, except those that leave because only the rejected spec had them.
func (s *State) purpose(in *rollout.Input) topsv1.OperationPurpose {
	rb := s.Rollout.Status.Rollback
	switch {
	case rb == nil:
	case s.Group.Kind != KindGcuResource && rb.To == in.Revision, s.Group.Kind == KindGcuResource && isDeployedInPlace(rb, s.Members):
		return topsv1.PurposeRollback
	}
	return topsv1.PurposeUpgrade
}

// onlyFor returns what the upgrade is limited to, nil for no limit. Its errors are dropped because
// invalid settings block the group anyway.
func (s *State) onlyFor() *daemonset.Limit {
	if !s.limit.read {
		s.limit.read = true
		s.limit.of, _ = daemonset.LimitOf(s.Members[0].DaemonSet.Annotations)
	}
	return s.limit.of
}

// withoutMember returns a component of a limit that has no member, "" if all have one.
func (s *State) withoutMember(limit *daemonset.Limit) string {
	if limit == nil {
		return ""
	}
	i := slices.IndexFunc(limit.Components, func(key string) bool {
		return !slices.ContainsFunc(s.Members, func(m Member) bool { return m.Component() == key })
	})
	if i < 0 {
		return ""
	}
	return limit.Components[i]
}

// Settings returns the settings that all members agree on.
func (s *State) Settings() (daemonset.Settings, *rollout.Blocked) {
	var agreed daemonset.Settings
	for i, m := range s.Members {
		settings, err := daemonset.SettingsOf(m.DaemonSet)
		if err != nil {
			return daemonset.Settings{}, blockedBy(err)
		}
		if i > 0 && settings != agreed {
			return daemonset.Settings{}, &rollout.Blocked{Reason: daemonset.ReasonSettingsDisagree, Message: fmt.Sprintf(
				"DaemonSets %s and %s have different upgrade annotations: waiting until both have those of the GcuResource; if it lasts, condition Degraded of the GcuResource names the one to remove",
				s.Members[0].Key(), m.Key())}
		}
		agreed = settings
	}
	return agreed, nil
}

func blockedBy(err error) *rollout.Blocked {
	if wrong, ok := errors.AsType[*daemonset.SettingsError](err); ok {
		return &rollout.Blocked{Reason: wrong.Reason, Message: wrong.Message}
	}
	return &rollout.Blocked{Reason: "InvalidSettings", Message: err.Error()}
}

// revisionOf returns a short hash of the targets of all members.
func revisionOf(hashes []string) string {
	slices.Sort(hashes)
	sum := sha256.Sum256([]byte(strings.Join(hashes, "\n")))
	return hex.EncodeToString(sum[:5])
}

// TakeRollout sets the rollout of the group to the one found under its key, which is empty if there is none. The rollout
// of another group with the same key is only noted in TakenBy: it is not read, written or deleted.
func (s *State) TakeRollout(key types.NamespacedName, found *topsv1.DaemonRollout) {
	s.Rollout, s.TakenBy = s.NewRollout(key), nil
	switch {
	case found.ResourceVersion == "":
	case found.BelongsTo(s.Group.Kind, s.Group.Name):
		s.Rollout = found
	default:
		s.TakenBy = found
	}
}

// NameTaken blocks a group whose name is taken by another group; nil if it is not.
func (s *State) NameTaken() *rollout.Blocked {
	if s.TakenBy == nil {
		return nil
	}
	other := s.TakenBy.Spec.TargetRef
	return &rollout.Blocked{Reason: reasonNameTaken, Message: fmt.Sprintf("DaemonRollout %s/%s belongs to %s %s, not to %s %s: rename one of them",
		s.TakenBy.Namespace, s.TakenBy.Name, other.Kind, other.Name, s.Group.Kind, s.Group.Name)}
}

// ofFormerOwner blocks a group while its rollout belongs to a former owner of the same name: the garbage collector will
// delete it with all its slots. It returns nil otherwise. An orphaned rollout stays.
func ofFormerOwner(r *topsv1.DaemonRollout, ds *appsv1.DaemonSet) *rollout.Blocked {
	former, owner := metav1.GetControllerOfNoCopy(r), ownerOf(ds)
	if former == nil || former.UID == owner.UID {
		return nil
	}
	return &rollout.Blocked{Reason: reasonRevisionPending, Message: fmt.Sprintf(
		"%s %s was created again: waiting until the garbage collector has deleted the DaemonRollout of the former one", owner.Kind, owner.Name)}
}

// ownerOf returns who owns the rollout of a DaemonSet: its gr, or the DaemonSet itself.
func ownerOf(ds *appsv1.DaemonSet) *metav1.OwnerReference {
	owner := metav1.NewControllerRef(ds, appsv1.SchemeGroupVersion.WithKind(KindDaemonSet))
	if ref := daemonset.GcuResourceOwner(ds); ref != nil {
		owner = ref.DeepCopy()
	}
	owner.BlockOwnerDeletion = nil
	return owner
}

// NewRollout returns the DaemonRollout of a group that has none yet.
func (s *State) NewRollout(key types.NamespacedName) *topsv1.DaemonRollout {
	return &topsv1.DaemonRollout{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:          map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*ownerOf(s.Members[0].DaemonSet)},
		},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: s.Group.Kind, Name: s.Group.Name}},
	}
}
