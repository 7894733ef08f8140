package daemonset

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The annotation keys of contract sections 3 and 4, spelled out, as users type them.
const (
	ourStrategy       = "topsops.enflame.com/update-strategy"
	ourMaxUnavailable = "topsops.enflame.com/max-unavailable"
	ourPaused         = "topsops.enflame.com/paused"
	ourPolicy         = "topsops.enflame.com/upgrade-policy"
	yurtStrategy      = "apps.openyurt.io/update-strategy"
	yurtMax           = "apps.openyurt.io/max-unavailable"
)

// unsaid is an unset max-unavailable: the policy's or the default applies.
var unsaid = intstr.IntOrString{}

// annotated returns an OnDelete DaemonSet with annotations given as key, value, key, value.
func annotated(pairs ...string) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "driver", Annotations: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		ds.Annotations[pairs[i]] = pairs[i+1]
	}
	ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	return ds
}

func rolling(maxUnavailable intstr.IntOrString) Settings {
	return Settings{Strategy: AdvancedRollingUpdate, MaxUnavailable: maxUnavailable}
}

// Contract 99.
func TestSettingsOf(t *testing.T) {
	paused, named := rolling(unsaid), rolling(unsaid)
	paused.Paused, named.Policy = true, "gold.v2"
	rollingUpdate := annotated(ourMaxUnavailable, "abc", ourPaused, "perhaps")
	rollingUpdate.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	tests := []struct {
		name string
		ds   *appsv1.DaemonSet
		want Settings
	}{
		{"without annotations nobody replaces pods", annotated(), Settings{}},
		{"without a strategy nothing else is looked at", rollingUpdate, Settings{}},
		{"AdvancedRollingUpdate without max-unavailable leaves it unsaid", annotated(ourStrategy, "AdvancedRollingUpdate"), rolling(unsaid)},
		{"OTA", annotated(ourStrategy, "OTA"), Settings{Strategy: OTA, MaxUnavailable: unsaid}},
		{"a strategy in any case", annotated(ourStrategy, "aDVANCEDrollingUPDATE"), rolling(unsaid)},
		{"ota in small letters", annotated(ourStrategy, "ota"), Settings{Strategy: OTA, MaxUnavailable: unsaid}},
		{"the legacy Auto of OpenYurt is AdvancedRollingUpdate", annotated(yurtStrategy, "Auto"), rolling(unsaid)},
		{"the keys of OpenYurt mean the same", annotated(yurtStrategy, "AdvancedRollingUpdate", yurtMax, "3"), rolling(intstr.FromInt32(3))},
		{"our strategy wins", annotated(ourStrategy, "OTA", yurtStrategy, "AdvancedRollingUpdate"), Settings{Strategy: OTA, MaxUnavailable: unsaid}},
		{"our strategy wins over one that is wrong", annotated(ourStrategy, "OTA", yurtStrategy, "Canary"), Settings{Strategy: OTA, MaxUnavailable: unsaid}},
		{"our max-unavailable wins", annotated(ourStrategy, "Auto", ourMaxUnavailable, "2", yurtMax, "50%"), rolling(intstr.FromInt32(2))},
		{"keys of both may be mixed", annotated(yurtStrategy, "Auto", ourMaxUnavailable, "25%"), rolling(intstr.FromString("25%"))},
		{"one node is the least", annotated(ourStrategy, "Auto", ourMaxUnavailable, "1"), rolling(intstr.FromInt32(1))},
		{"one percent is the least", annotated(ourStrategy, "Auto", ourMaxUnavailable, "1%"), rolling(intstr.FromString("1%"))},
		{"a hundred percent is the most", annotated(ourStrategy, "Auto", ourMaxUnavailable, "100%"), rolling(intstr.FromString("100%"))},
		{"paused", annotated(ourStrategy, "Auto", ourPaused, "true"), paused},
		{"paused in any case", annotated(ourStrategy, "Auto", ourPaused, "True"), paused},
		{"paused false", annotated(ourStrategy, "Auto", ourPaused, "FALSE"), rolling(unsaid)},
		{"a policy, whether or not it exists", annotated(ourStrategy, "Auto", ourPolicy, "gold.v2"), named},
		{"a policy of a DaemonSet without a strategy is not looked at", annotated(ourPolicy, "Not A Name"), Settings{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := SettingsOf(tt.ds)
			if err != nil {
				t.Fatalf("SettingsOf: %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("SettingsOf (-want +got):\n%s", diff)
			}
		})
	}
}

// wantRefused fails the test unless the settings are an error with the reason and a message
// with all the words, and the settings are zero.
func wantRefused(t *testing.T, ds *appsv1.DaemonSet, reason string, words ...string) {
	t.Helper()
	got, err := SettingsOf(ds)
	wrong, ok := errors.AsType[*SettingsError](err)
	if !ok {
		t.Fatalf("SettingsOf = %+v, %v, want a SettingsError", got, err)
	}
	if diff := cmp.Diff(Settings{}, got); diff != "" {
		t.Errorf("bad input became settings (-want +got):\n%s", diff)
	}
	if wrong.Reason != reason {
		t.Errorf("reason = %q, want %q", wrong.Reason, reason)
	}
	for _, word := range words {
		if !strings.Contains(wrong.Message, word) {
			t.Errorf("message %q does not say %q", wrong.Message, word)
		}
	}
}

func TestSettingsOfRefusesABadMaxUnavailable(t *testing.T) {
	bad := []string{"0", "00", "-1", "+1", "abc", "1.5", "1e1", "0x1", "101%", "1000%", "0%", "-5%", "1.5%", "", " 3", "3 ", "3\n", "10%%", "%", "10 %",
		"99999999999999999999", "٣"}
	for _, value := range bad {
		for _, key := range []string{ourMaxUnavailable, yurtMax} {
			t.Run(fmt.Sprintf("%s=%q", key, value), func(t *testing.T) {
				wantRefused(t, annotated(ourStrategy, "AdvancedRollingUpdate", key, value),
					"InvalidMaxUnavailable", key, fmt.Sprintf("%q", value), "at least 1", "100%")
			})
		}
	}
	t.Run("a bad value of ours is not saved by a good one of OpenYurt", func(t *testing.T) {
		wantRefused(t, annotated(ourStrategy, "OTA", ourMaxUnavailable, "0", yurtMax, "2"), "InvalidMaxUnavailable", ourMaxUnavailable, `"0"`)
	})
}

func TestSettingsOfRefuses(t *testing.T) {
	rollingUpdate := annotated(yurtStrategy, "OTA")
	rollingUpdate.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	tests := []struct {
		name   string
		ds     *appsv1.DaemonSet
		reason string
		words  []string
	}{
		{"an unknown strategy", annotated(ourStrategy, "Canary"), "InvalidUpdateStrategy", []string{ourStrategy, `"Canary"`, "AdvancedRollingUpdate or OTA"}},
		{"an unknown strategy under OpenYurt's key", annotated(yurtStrategy, "RollingUpdate"), "InvalidUpdateStrategy", []string{yurtStrategy, `"RollingUpdate"`}},
		{"a strategy that is present and empty", annotated(ourStrategy, ""), "InvalidUpdateStrategy", []string{ourStrategy, `""`}},
		{"a strategy with a space", annotated(ourStrategy, "OTA "), "InvalidUpdateStrategy", []string{`"OTA "`}},
		{"a wrong strategy of ours beside a good one of OpenYurt", annotated(ourStrategy, "Canary", yurtStrategy, "OTA"), "InvalidUpdateStrategy", []string{ourStrategy, `"Canary"`}},
		{"a DaemonSet that the DaemonSet controller updates itself", rollingUpdate, "UpdateTypeNotOnDelete",
			[]string{"kube-system/driver", "RollingUpdate", "spec.updateStrategy.type", "OnDelete", yurtStrategy}},
		{"a value of paused that is neither", annotated(ourStrategy, "OTA", ourPaused, "yes"), "InvalidPaused", []string{ourPaused, `"yes"`}},
		{"an empty paused", annotated(ourStrategy, "OTA", ourPaused, ""), "InvalidPaused", []string{ourPaused, `""`}},
		{"a plan name with a slash", annotated(ourStrategy, "OTA", "topsops.enflame.com/upgrade-plan", "a/b"), "InvalidUpgradePlan", []string{`"a/b"`, "name of an UpgradePlan, or remove it"}},
		{"a policy name with a capital", annotated(ourStrategy, "OTA", ourPolicy, "Gold"), "InvalidUpgradePolicy", []string{ourPolicy, `"Gold"`, "name of an UpgradePolicy"}},
		{"a policy name with a namespace", annotated(ourStrategy, "OTA", ourPolicy, "apps/gold"), "InvalidUpgradePolicy", []string{ourPolicy, `"apps/gold"`}},
		{"a policy name with a space", annotated(ourStrategy, "OTA", ourPolicy, "gold "), "InvalidUpgradePolicy", []string{`"gold "`}},
		{"a policy name that is present and empty", annotated(ourStrategy, "OTA", ourPolicy, ""), "InvalidUpgradePolicy", []string{ourPolicy, `""`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantRefused(t, tt.ds, tt.reason, tt.words...) })
	}
}

func TestLimit(t *testing.T) {
	tests := []struct {
		name  string
		max   intstr.IntOrString
		total int
		want  int
	}{
		{"a count is the limit", intstr.FromInt32(3), 20, 3},
		{"a count may be more than there are nodes", intstr.FromInt32(30), 20, 30},
		{"a percentage of all nodes", intstr.FromString("10%"), 20, 2},
		{"a percentage rounds up", intstr.FromString("10%"), 21, 3},
		{"a percentage of few nodes is at least one", intstr.FromString("1%"), 3, 1},
		{"a percentage of no nodes is one", intstr.FromString("10%"), 0, 1},
		{"all nodes", intstr.FromString("100%"), 7, 7},
		{"zero settings are ten percent, the default", unsaid, 20, 2},
		{"the default rounds up", unsaid, 21, 3},
		{"the default of few nodes is one", unsaid, 3, 1},
		{"a negative count is one, never all", intstr.FromInt32(-1), 20, 1},
		{"what cannot be read is one, never all", intstr.FromString("many"), 20, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rolling(tt.max).MaxUnavailableOf(tt.total); got != tt.want {
				t.Errorf("Limit(%d) of %s = %d, want %d", tt.total, tt.max.String(), got, tt.want)
			}
		})
	}
}
