package observed

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Member is one DaemonSet of the group with its revisions.
type Member struct {
	DaemonSet *appsv1.DaemonSet
	Revisions []*appsv1.ControllerRevision
	// Foreseen is, in a preview, the revision of the template that the DaemonSet will have; ""
	// otherwise.
	Foreseen string
	// Pods on the nodes that were read, by node, including surplus pods.
	Pods map[string][]*corev1.Pod
}

// Target returns the hash of the newest revision. The error says what must happen first if it is not known yet.
func (m Member) Target() (string, error) {
	if m.Foreseen != "" {
		return m.Foreseen, nil
	}
	return daemonset.TargetRevision(m.DaemonSet, m.Revisions)
}

// Key returns namespace/name of the DaemonSet.
func (m Member) Key() string { return m.DaemonSet.Namespace + "/" + m.DaemonSet.Name }

// Component returns the key of the member in the spec of its gr, "" if it has no gr.
func (m Member) Component() string { return daemonset.Component(m.DaemonSet) }

// version returns the image version of the member's new pods, "" if it leaves.
func (m Member) version() string {
	if daemonset.IsLeaving(m.DaemonSet) {
		return ""
	}
	return daemonset.Version(&m.DaemonSet.Spec.Template.Spec)
}

// earlierVersions returns the versions of the existing revisions, by hash; nil if the policy has no rules about
// versions, or if the member leaves.
func (m Member) earlierVersions(policy *topsv1.UpgradePolicy) map[string]string {
	if policy == nil || policy.Spec.Versions == nil || daemonset.IsLeaving(m.DaemonSet) {
		return nil
	}
	known := map[string]string{}
	for _, r := range m.Revisions {
		if template, err := daemonset.TemplateOf(r); err == nil {
			known[daemonset.RevisionHash(r)] = daemonset.Version(&template.Spec)
		}
	}
	return known
}

// SameTarget reports whether the newest revision of a DaemonSet, read live, is still the observed
// one. The cache of revisions may lag behind that of pods, and then a pod at the newest revision
// looks outdated.
func (m Member) SameTarget(live *appsv1.DaemonSet, revisions []*appsv1.ControllerRevision) bool {
	observed, err1 := daemonset.TargetRevision(m.DaemonSet, m.Revisions)
	now, err2 := daemonset.TargetRevision(live, revisions)
	return err1 == nil && err2 == nil && observed == now
}

// SameSettings reports whether a DaemonSet, read live, has the observed upgrade annotations. Wrong ones are all the same: they
// permit nothing, but a pod at the gate cannot wait until they are corrected.
func (m Member) SameSettings(live *appsv1.DaemonSet) bool {
	before, err1 := daemonset.SettingsOf(m.DaemonSet)
	now, err2 := daemonset.SettingsOf(live)
	return err1 == nil && err2 == nil && before == now || err1 != nil && err2 != nil
}
