package observed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/versions"
)

// controlPlaneLabels mark control plane nodes: the current label and the old one.
var controlPlaneLabels = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// applyPolicy refines the input by the policy that the settings name, with the approvals of the
// rollout; without a policy the control plane is first (contract 98). A missing or invalid policy blocks the group; it
// never counts as no policy.
func applyPolicy(in *rollout.Input, named *topsv1.UpgradePolicy, approvals []string) {
	in.Policy.ControlPlane = rollout.ControlPlaneFirst
	if in.Settings.Policy == "" || in.Blocked != nil {
		return
	}
	if named == nil {
		in.Blocked = &rollout.Blocked{Reason: daemonset.ReasonPolicyNotFound, Message: fmt.Sprintf(
			"annotation %s names UpgradePolicy %q, which does not exist: create it, or remove the annotation",
			topsv1.AnnotationUpgradePolicy, in.Settings.Policy)}
		return
	}
	spec := &named.Spec
	policy, err := policyOf(spec)
	if err != nil {
		in.Blocked = &rollout.Blocked{Reason: daemonset.ReasonInvalidPolicy,
			Message: fmt.Sprintf("UpgradePolicy %s: %v", named.Name, err)}
		return
	}
	in.Policy = policy
	if spec.MaxUnavailable != nil && in.Settings.MaxUnavailable == (daemonset.Settings{}).MaxUnavailable {
		in.Settings.MaxUnavailable = *spec.MaxUnavailable
	}
	in.Deadlines.Progress = secondsOr(spec.ProgressDeadlineSeconds, in.Deadlines.Progress)
	in.Deadlines.Lost = secondsOr(spec.LostDeadlineSeconds, in.Deadlines.Lost)
	in.Deadlines.Unavailable = secondsOr(spec.UnavailableSeconds, in.Deadlines.Unavailable)
	in.Deadlines.Probation = secondsOr(spec.ProbationSeconds, in.Deadlines.Probation)
	in.Policy.Returned = secondsOr(spec.ReturnedSeconds, 0)
	in.Policy.Approved = approvedWaves(approvals, in.Revision)
}

func secondsOr(seconds *int32, otherwise time.Duration) time.Duration {
	if seconds == nil {
		return otherwise
	}
	return time.Duration(*seconds) * time.Second
}

// CheckPolicy returns what is wrong with a policy that the API server has accepted, nil if nothing is.
func CheckPolicy(spec *topsv1.UpgradePolicySpec) error {
	_, err := policyOf(spec)
	return err
}

// Divide returns the wave of each node under a policy, by node name, as the rollout divides them. labels are the labels of
// the nodes, by name. Nodes in no wave have rollout.RestWave. The error is that of CheckPolicy.
func Divide(spec *topsv1.UpgradePolicySpec, labels map[string]map[string]string) (map[string]string, error) {
	p, err := policyOf(spec)
	if err != nil {
		return nil, err
	}
	return p.Divide(labels), nil
}

// policyOf converts a policy. It returns an error for what the API server cannot validate: time
// zones, label selectors and ranges of versions.
func policyOf(spec *topsv1.UpgradePolicySpec) (rollout.Policy, error) {
	var p rollout.Policy
	if spec.Pools != nil {
		p.PoolMaxUnavailable = &spec.Pools.MaxUnavailable
	}
	if spec.Failure != nil {
		p.Threshold = spec.Failure.Threshold
	}
	switch spec.ControlPlane {
	case topsv1.ControlPlaneFirst, "":
		p.ControlPlane = rollout.ControlPlaneFirst
	case topsv1.ControlPlaneLast:
		p.ControlPlane = rollout.ControlPlaneLast
	}
	for i := range spec.Waves {
		w, err := waveOf(&spec.Waves[i])
		if err != nil {
			return p, err
		}
		p.Waves = append(p.Waves, w)
	}
	var err error
	if p.Versions, err = versions.Of(spec.Versions); err != nil {
		return p, err
	}
	p.Window, err = windowOf(spec.Window)
	return p, err
}

func waveOf(spec *topsv1.Wave) (rollout.Wave, error) {
	w := rollout.Wave{
		Name: spec.Name, Size: spec.Size, Soak: time.Duration(spec.SoakSeconds) * time.Second,
		Manual: spec.Approval == topsv1.ApprovalManual,
	}
	if spec.Selector == nil {
		return w, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return w, fmt.Errorf("selector of wave %s: %w", spec.Name, err)
	}
	w.Selector = selector
	return w, nil
}

// IsControlPlane reports whether a node belongs to the control plane, by the current label or the old one.
func IsControlPlane(node *corev1.Node) bool {
	return slices.ContainsFunc(controlPlaneLabels, func(label string) bool {
		_, ok := node.Labels[label]
		return ok
	})
}

// describeNode adds to a node the properties that policies depend on.
func describeNode(n *rollout.Node, node *corev1.Node, spec *topsv1.UpgradePolicySpec, known Zones) {
	n.Labels, n.Kernel = node.Labels, node.Status.NodeInfo.KernelVersion
	if spec.Pools != nil {
		n.Pool = node.Labels[spec.Pools.TopologyKey]
	}
	n.TimeZone, n.ZoneError = known.ofNode(spec.Window, node.Labels)
}

// approvedWaves returns what approvals for a revision approve.
func approvedWaves(approvals []string, revision string) map[string]bool {
	approved := map[string]bool{}
	for _, entry := range approvals {
		if of, wave, ok := strings.Cut(entry, "/"); ok && of == revision {
			approved[wave] = true
		}
	}
	return approved
}
