package daemonset

import (
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Strategy is how outdated pods are replaced.
type Strategy string

const (
	// NoStrategy means that pods are not replaced.
	NoStrategy Strategy = ""
	// AdvancedRollingUpdate replaces them node by node under max-unavailable.
	AdvancedRollingUpdate Strategy = "AdvancedRollingUpdate"
	// OTA replaces them after a request on the node.
	OTA Strategy = "OTA"
)

// DefaultMaxUnavailable applies if nothing else is set (contract statement 99).
var DefaultMaxUnavailable = intstr.FromString("10%")

// Settings are how a DaemonSet is upgraded. They are comparable.
type Settings struct {
	Strategy Strategy
	// MaxUnavailable is zero if not annotated: then the policy's applies, or
	// DefaultMaxUnavailable.
	MaxUnavailable intstr.IntOrString
	Paused         bool
	// Policy is the name of the UpgradePolicy, or "".
	Policy string
	// Only is the annotated limit of the upgrade, or ""; see Limit.
	Only string
	// Plan is the name of the UpgradePlan in force, or "".
	Plan string
}

// SettingsOf reads the settings of a DaemonSet from its annotations (design section 1): our
// keys take precedence over OpenYurt's, and values are case-insensitive. Without a strategy
// it returns zero Settings and no error. An invalid value is a *SettingsError, and never
// becomes a default (invariant S12).
func SettingsOf(ds *appsv1.DaemonSet) (Settings, error) {
	annotations := ds.Annotations
	key, value := strategy(annotations)
	if key == "" {
		return Settings{}, nil
	}
	var s Settings
	switch strings.ToLower(value) {
	case "advancedrollingupdate", "auto":
		s.Strategy = AdvancedRollingUpdate
	case "ota":
		s.Strategy = OTA
	default:
		return Settings{}, settingsError(ReasonInvalidStrategy,
			"annotation %s is %q: set it to AdvancedRollingUpdate or OTA, or remove it", key, value)
	}
	if ds.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		return Settings{}, settingsError(ReasonNotOnDelete,
			"DaemonSet %s/%s has updateStrategy %s: set spec.updateStrategy.type to OnDelete, or remove annotation %s",
			ds.Namespace, ds.Name, ds.Spec.UpdateStrategy.Type, key)
	}
	var err error
	if s.MaxUnavailable, err = maxUnavailable(annotations); err != nil {
		return Settings{}, err
	}
	if s.Paused, err = Paused(annotations); err != nil {
		return Settings{}, err
	}
	if s.Policy, err = PolicyName(annotations); err != nil {
		return Settings{}, err
	}
	if s.Plan, err = PlanName(annotations); err != nil {
		return Settings{}, err
	}
	s.Only = annotations[topsv1.AnnotationUpgradeOnly]
	if _, err = LimitOf(annotations); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// SettingsIn returns the settings that annotations give a DaemonSet with updateStrategy OnDelete.
func SettingsIn(annotations map[string]string) (Settings, error) {
	return SettingsOf(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
		Spec:       appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}},
	})
}

// IsControlled reports whether a DaemonSet has a strategy or an invalid setting. It costs nothing,
// unlike SettingsOf, which validates a limit that may name thousands of nodes.
func IsControlled(ds *appsv1.DaemonSet) bool {
	key, _ := strategy(ds.Annotations)
	return key != ""
}

// IsOTA reports whether annotations set strategy OTA.
func IsOTA(annotations map[string]string) bool {
	_, value := strategy(annotations)
	return strings.EqualFold(value, string(OTA))
}

// Aliases returns the keys of each setting that has several, the one that takes precedence first.
func Aliases() [][]string { return [][]string{strategyKeys, maxUnavailableKeys} }

var (
	strategyKeys       = []string{topsv1.AnnotationUpdateStrategy, topsv1.OpenYurtAnnotationUpdateStrategy}
	maxUnavailableKeys = []string{topsv1.AnnotationMaxUnavailable, topsv1.OpenYurtAnnotationMaxUnavailable}
)

func strategy(annotations map[string]string) (key, value string) {
	return lookup(annotations, strategyKeys...)
}

// lookup returns the first key that is present, with its value.
func lookup(annotations map[string]string, keys ...string) (key, value string) {
	for _, k := range keys {
		if v, ok := annotations[k]; ok {
			return k, v
		}
	}
	return "", ""
}

var countOrPercent = regexp.MustCompile(`^([0-9]{1,9})(%?)$`)

func maxUnavailable(annotations map[string]string) (intstr.IntOrString, error) {
	key, value := lookup(annotations, maxUnavailableKeys...)
	if key == "" {
		return intstr.IntOrString{}, nil
	}
	match := countOrPercent.FindStringSubmatch(value)
	if match == nil {
		return intstr.IntOrString{}, invalidMaxUnavailable(key, value)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil || n == 0 || (match[2] == "%" && n > 100) {
		return intstr.IntOrString{}, invalidMaxUnavailable(key, value)
	}
	return intstr.Parse(value), nil
}

func invalidMaxUnavailable(key, value string) error {
	return settingsError(ReasonInvalidMaxUnavailable,
		"annotation %s is %q: set it to a whole number of nodes of at least 1, or to a percentage from 1%% to 100%%", key, value)
}

// Paused reports whether annotations pause what is done to a DaemonSet. An invalid value is a
// *SettingsError.
func Paused(annotations map[string]string) (bool, error) {
	value, ok := annotations[topsv1.AnnotationPaused]
	if !ok {
		return false, nil
	}
	switch strings.ToLower(value) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, settingsError(ReasonInvalidPaused, "annotation %s is %q: set it to \"true\" or \"false\"", topsv1.AnnotationPaused, value)
}

// PolicyName returns the UpgradePolicy that is annotated, "" for none; a name that is none is a
// *SettingsError.
func PolicyName(annotations map[string]string) (string, error) {
	name, ok := annotations[topsv1.AnnotationUpgradePolicy]
	if ok && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", settingsError(ReasonInvalidPolicy, "annotation %s is %q: set it to the name of an UpgradePolicy", topsv1.AnnotationUpgradePolicy, name)
	}
	return name, nil
}

// PlanName returns the UpgradePlan that is annotated, "" for none; a name that is none is a
// *SettingsError.
func PlanName(annotations map[string]string) (string, error) {
	name, ok := annotations[topsv1.AnnotationUpgradePlan]
	if ok && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", settingsError(ReasonInvalidPlan, "annotation %s is %q: set it to the name of an UpgradePlan, or remove it", topsv1.AnnotationUpgradePlan, name)
	}
	return name, nil
}

// MaxUnavailableOf returns how many of total nodes may be unavailable at once: the count,
// or the percentage rounded up, at least 1 (design section 3).
func (s Settings) MaxUnavailableOf(total int) int {
	most := s.MaxUnavailable
	if most == (intstr.IntOrString{}) {
		most = DefaultMaxUnavailable
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(&most, total, true)
	if err != nil || limit < 1 {
		return 1
	}
	return limit
}
