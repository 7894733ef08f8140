package observed

import (
	appsv1 "k8s.io/api/apps/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Member is one DaemonSet of the group with what belongs to it.
type Member struct {
	DaemonSet *appsv1.DaemonSet
	Revisions []*appsv1.ControllerRevision
	// Foreseen is, in a preview, the revision of a template that the DaemonSet is to
	// have; "" otherwise.
	Foreseen string
}

// Target is the hash of the newest revision; the error says what is waited for.
func (m Member) Target() (string, error) {
	if m.Foreseen != "" {
		return m.Foreseen, nil
	}
	return daemonset.TargetRevision(m.DaemonSet, m.Revisions)
}

// Key is namespace/name of the DaemonSet.
func (m Member) Key() string { return m.DaemonSet.Namespace + "/" + m.DaemonSet.Name }

// Component is the key of a member in the spec of its gr, "" for a DaemonSet of none.
func (m Member) Component() string {
	if GcuResourceOwner(m.DaemonSet) == nil {
		return ""
	}
	return m.DaemonSet.Labels[topsv1.LabelComponent]
}

// SameTarget reports whether the newest revision of a DaemonSet, read past the cache, is
// still the one that was observed: the cache of revisions may be behind that of pods, and
// then a pod at the newest revision looks outdated.
func (m Member) SameTarget(live *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision) bool {
	observed, err1 := daemonset.TargetRevision(m.DaemonSet, m.Revisions)
	now, err2 := daemonset.TargetRevision(live, revisions)
	return err1 == nil && err2 == nil && observed == now
}

// SameSettings reports whether a DaemonSet, read past the cache, has the upgrade
// annotations that were observed.
func (m Member) SameSettings(live *appsv1.DaemonSet) bool {
	before, err1 := daemonset.SettingsOf(m.DaemonSet)
	now, err2 := daemonset.SettingsOf(live)
	return err1 == nil && err2 == nil && before == now
}
