package observed

import (
	"cmp"
	"fmt"
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
// rollout. A missing or invalid policy blocks the group; it never counts as no policy.
func applyPolicy(in *rollout.Input, named *topsv1.UpgradePolicy, approved string) {
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
	in.Policy.Approved = approvedWaves(approved, in.Revision)
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

// Divide returns the wave of each node of a rollout under a policy, as the rollout divides them, by
// the name of the node; labels are those of the nodes. Nodes in none have rollout.RestWave. The
// error is that of CheckPolicy.
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
	case topsv1.ControlPlaneFirst:
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

var weekdays = map[topsv1.Weekday]time.Weekday{
	"Mon": time.Monday, "Tue": time.Tuesday, "Wed": time.Wednesday, "Thu": time.Thursday,
	"Fri": time.Friday, "Sat": time.Saturday, "Sun": time.Sunday,
}

func windowOf(spec *topsv1.MaintenanceWindow) (*rollout.Window, error) {
	if spec == nil {
		return nil, nil
	}
	at, err := time.Parse("15:04", spec.Start)
	if err != nil {
		return nil, fmt.Errorf("start of the window: %w", err)
	}
	zone, err := zoneOf(cmp.Or(spec.TimeZone, "UTC"))
	if err != nil {
		return nil, err
	}
	w := &rollout.Window{
		Start:  time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute,
		Length: time.Duration(spec.DurationMinutes) * time.Minute,
		Zone:   zone,
	}
	for _, d := range spec.Days {
		if w.Days == nil {
			w.Days = map[time.Weekday]bool{}
		}
		w.Days[weekdays[d]] = true
	}
	return w, nil
}

// zoneOf loads a time zone by its IANA name. It rejects "" and "Local", the zone of the machine
// that the manager runs on.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is not an IANA time zone, such as Asia/Shanghai", name)
	}
	return zone, nil
}

// Zones caches time zones by name for one pass: many nodes name the same few.
type Zones map[string]zone

type zone struct {
	location *time.Location
	err      error
}

func (z Zones) of(name string) (*time.Location, error) {
	known, ok := z[name]
	if !ok {
		known.location, known.err = zoneOf(name)
		z[name] = known
	}
	return known.location, known.err
}

// describeNode adds to a node what policies depend on.
func describeNode(n *rollout.Node, node *corev1.Node, spec *topsv1.UpgradePolicySpec, known Zones) {
	n.Labels, n.Kernel = node.Labels, node.Status.NodeInfo.KernelVersion
	for _, label := range controlPlaneLabels {
		if _, ok := node.Labels[label]; ok {
			n.ControlPlane = true
		}
	}
	if spec.Pools != nil {
		n.Pool = node.Labels[spec.Pools.TopologyKey]
	}
	if spec.Window == nil || spec.Window.TimeZoneNodeLabel == "" {
		return
	}
	if value, ok := node.Labels[spec.Window.TimeZoneNodeLabel]; ok {
		location, err := known.of(strings.ReplaceAll(value, ".", "/"))
		if err != nil {
			n.ZoneError = fmt.Sprintf("node label %s: %v", spec.Window.TimeZoneNodeLabel, err)
		}
		n.TimeZone = location
	}
}

// approvedWaves parses the approvals for a revision.
func approvedWaves(annotation, revision string) map[string]bool {
	approved := map[string]bool{}
	for _, entry := range strings.Split(annotation, ",") {
		if of, wave, ok := strings.Cut(strings.TrimSpace(entry), "/"); ok && of == revision {
			approved[wave] = true
		}
	}
	return approved
}
